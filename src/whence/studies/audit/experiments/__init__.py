"""Registry of the audit experiments, one file each, and `Finding`, the type of their results.

An experiment is `fn(subject, *, ...)`. It states its hypothesis, a claim that must hold if attention is to be
read as an explanation, and the threshold before any number is known; it returns a `Finding`. The verdict
follows from the finding's interval and the threshold (`whence.studies.audit.verdict`), never from the
experiment itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadMethod, UnknownExperiment
from whence.core.registry import Entry, Registry

Numbers = NDArray[np.float64]

DIRECTIONS = ("above", "below")


@dataclass(frozen=True)
class Finding:
    """The result of an experiment: one number for each example, with further figures, plots and notes."""

    values: Numbers  # (n,), at the first site; the effect is their mean. NaN if undefined
    by_site: Mapping[str, Numbers] = field(default_factory=dict)  # the same at the other sites
    by_class: Mapping[str, Numbers] = field(default_factory=dict)  # by predicted class
    chance: float | None = None  # the effect of attention without meaning
    # If the effect is no mean: a statistic of rows; `values` is then (n, parts).
    statistic: Callable[[Numbers], float] | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)  # further figures, ready for JSON
    plots: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()  # remarks on the result
    undecided: str | None = None  # reason for no verdict, whatever the effect


def _check_direction(entry: Entry) -> None:
    """Refuse an experiment with an unknown direction when it is registered."""
    if entry.facts["direction"] not in DIRECTIONS:
        raise BadMethod(
            f"The experiment {entry.name!r} must hold {' or '.join(DIRECTIONS)} its threshold. "
            f"Got {entry.facts['direction']!r}."
        )


experiment = Registry(
    "experiment",
    "whence.studies.audit.experiments",
    required=frozenset(
        {
            "hypothesis",
            "measure",
            "threshold",
            "direction",
            "labels",
            "trains",
            "calls",
            "cite",
            "misleads_when",
        }
    ),
    check=_check_direction,
    unknown=UnknownExperiment,
)
