"""An audit made of its experiments: found just now, or one by one on several days."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.audit.chosen import place
from whence.audit.conclusion import conclude
from whence.audit.experiments import experiment
from whence.audit.result import VERSION
from whence.core.errors import WhenceError


class Parts:
    """What of an audit is known, and who is told of what is found. By default nothing, and nobody."""

    def __init__(self, known: Mapping[str, Mapping[str, Any] | None] | None = None) -> None:
        """`known` has what an earlier audit of the same model, data and setting found, by experiment.

        None stands for one that failed.
        """
        self.known = dict(known or {})
        self.why_not: dict[str, str] = {}  # experiments that were tried and failed

    def begin(self, name: str) -> None:
        """Hear that an experiment begins."""

    def keep(self, found: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Get what an experiment found, and what it was found about (see `composed`)."""

    def failed(self, name: str, error: WhenceError) -> None:
        """Hear that an experiment could not be made. Whoever keeps this need not raise it."""
        raise error


def composed(
    experiments: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
    *,
    origin: Mapping[str, Any],
    why_not: Mapping[str, str],
    calls: Mapping[str, int] | None,
    seconds: float | None,
) -> dict[str, Any]:
    """Draw the conclusion from all experiments, and return the documented JSON object.

    `about`: data, setting, performance, and the site as the conclusion names it, with the rest of the model.
    `why_not`: experiments that failed, and why; of all others it is said that nobody asked for them.
    """
    found = sorted(experiments, key=lambda one: place(one["name"]))
    ran = {one["name"] for one in found}
    not_run = [entry for entry in experiment if entry.name not in ran]
    answer, conclusion = conclude(
        found,
        model=origin["model"]["name"],
        data=about["data"]["name"],
        site=about["site"],
        rest=about["rest"],
        performance=about["performance"],
        not_run=[entry.name for entry in not_run],
    )
    can_train = about["setting"]["train"] is not None
    return {
        "version": VERSION,
        "kind": "audit",
        **origin,
        "data": about["data"],
        "setting": about["setting"],
        "performance": about["performance"],
        "experiments": list(found),
        "not_run": [
            {
                "name": entry.name,
                "why": why_not.get(entry.name) or _why_not(entry.facts["trains"], can_train),
            }
            for entry in not_run
        ],
        "answer": answer,
        "conclusion": conclusion,
        "calls": calls,
        "seconds": seconds,
    }


def _why_not(trains: bool, can_train: bool) -> str:
    if trains and not can_train:
        return "no training data was given: --train"
    return "not asked for"
