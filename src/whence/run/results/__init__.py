"""What is in the folder of a run, for people: tables, an evaluation, an audit, reports."""

from whence.run.results.folder import Run, is_run

__all__ = ["Run", "is_run"]
