"""Which experiments are run, with their parameters settled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.audit.experiments import experiment
from whence.core.errors import BadParameter
from whence.core.params import PRESET, checked
from whence.core.registry import Entry

# In this order they are shown and run: what is found early helps to read what comes later.
ORDER = (
    "correlation",
    "permutation",
    "replacement",
    "adversarial",
    "diversity",
    "uniform_training",
    "seeds",
    "trained_adversary",
    "guides",
)


@dataclass(frozen=True)
class Chosen:
    """One experiment, and the values of all its parameters."""

    entry: Entry
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return self.entry.name


def place(name: str) -> tuple[int, str]:
    """Return what experiments are sorted by; those of other people come last."""
    return ORDER.index(name) if name in ORDER else len(ORDER), name


def names(asked: str | Sequence[str] | None, *, can_train: bool, others: bool = False) -> list[str]:
    """Name the experiments that were asked for: by default those that train nothing; with data to train on, all.

    With `others`, ready models from other seeds, `seeds` need not train any.
    """
    known = experiment.names()
    every = sorted(known, key=place)
    if asked is None:
        ready = {"seeds"} if others else set()
        return [
            name
            for name in every
            if can_train or name in ready or not experiment.get(name).facts["trains"]
        ]
    given = [asked] if isinstance(asked, str) else list(asked)
    if not given:
        raise BadParameter(
            f"No experiment was named. Known: {', '.join(known)}, or all of them: all."
        )
    wanted = set(every if "all" in given else given)
    for name in wanted:
        experiment.get(name)  # or say what there is
    return [name for name in every if name in wanted]


def choose(
    asked: str | Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    *,
    can_train: bool,
    others: bool = False,
    from_text: bool = False,
) -> list[Chosen]:
    """Settle what is run; `params` maps NAME or EXPERIMENT.NAME to a value, or an experiment to a mapping of them."""
    chosen = names(asked, can_train=can_train, others=others)
    entries = [experiment.get(name) for name in chosen]
    own: dict[str, dict[str, Any]] = {entry.name: {} for entry in entries}
    for key, value in (params or {}).items():
        if key in own and isinstance(value, Mapping):
            own[key].update(value)
            continue
        owner, dot, name = key.rpartition(".")
        takers = [e for e in entries if e.name == owner] if dot else _takers(entries, key, value)
        if not takers:
            known = sorted({name for entry in entries for name in entry.parameters})
            raise BadParameter(
                f"None of the experiments ({', '.join(own)}) has a parameter {key!r}. Known: {', '.join(known)}; "
                "EXPERIMENT.NAME means one experiment's."
            )
        for entry in takers:
            own[entry.name][name if dot else key] = value
    return [
        Chosen(
            entry,
            checked(
                entry.name,
                entry.parameters,
                own[entry.name],
                presets=entry.presets,
                from_text=from_text,
            ),
        )
        for entry in entries
    ]


def _takers(entries: Sequence[Entry], key: str, value: Any) -> list[Entry]:
    """Find whose parameter this is; a preset is for all that have one of that name, or, wrongly, any."""
    if key == PRESET:
        return [e for e in entries if value in e.presets] or [e for e in entries if e.presets]
    return [e for e in entries if key in e.parameters]
