"""Who does the work of a run: this process, several, or the actors of a Ray cluster."""

from whence.core.errors import BadPlan, WorkersFailed
from whence.run.backends.backend import Backend
from whence.run.plan import Manner, Plan

__all__ = ["Backend", "backend"]


def backend(plan: Plan, manner: Manner) -> Backend:
    """Return the workers that the manner names. None is started, and no model loaded, before it is asked for."""
    if manner.backend == "in-process":
        from whence.run.backends.in_process import InProcess

        return InProcess(plan, manner)
    if manner.backend == "processes":
        from whence.run.backends.pool import Pool
        from whence.run.backends.processes import Processes

        return Pool(Processes(plan, manner))
    if manner.backend == "ray":
        try:
            import whence.run.backends.ray as on_ray
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            raise WorkersFailed(
                "The backend 'ray' needs another package: pip install 'whence[ray]'."
            ) from None
        from whence.run.backends.pool import Pool

        return Pool(on_ray.Actors(plan, manner))
    raise BadPlan(
        f"There is no backend {manner.backend!r}; there are 'in-process', 'processes' and 'ray'."
    )
