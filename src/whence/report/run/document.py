"""What a report says, laid out once for all surfaces."""

from collections.abc import Mapping
from typing import Any

from whence.report.run.blocks import Document
from whence.report.run.one import of_run
from whence.report.run.two import of_runs


def document(payload: Mapping[str, Any]) -> Document:
    """Lay out a run, or two runs that were compared."""
    return of_runs(payload) if payload["kind"] == "runs" else of_run(payload)
