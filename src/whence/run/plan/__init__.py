"""What a run is to do, from a file or from options, checked before anything is loaded."""

from whence.run.plan.plan import BackendName, BadRows, Manner, Plan, told

__all__ = ["BackendName", "BadRows", "Manner", "Plan", "told"]
