"""From a data set to the examples that a model can be examined on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.audit.chosen import Chosen
from whence.audit.experiments import experiment
from whence.core.errors import BadExamples, InputError, NoHead, WhenceError
from whence.data import Encoded
from whence.data.sets.examples import Example, Read, shuffled
from whence.data.sets.labels import label_indices
from whence.explainer import Explainer
from whence.explainer.verify.testing import taken

FEWEST_TOKENS = 2  # of a text whose words attention can tell apart


@dataclass
class Taken:
    """The examples that can be used, and why the others cannot."""

    examples: list[Example]
    items: list[Encoded]
    truth: NDArray[np.int64] | None
    refused: Counter[str] = field(default_factory=Counter)
    without_labels: str | None = None  # why there are no true labels, where nobody needs them

    def facts(self, given: Read, labels: Sequence[str]) -> dict[str, Any]:
        """Say what was read and used, as plain data."""
        counts = Counter() if self.truth is None else Counter(self.truth.tolist())
        return {
            "name": given.name,
            "given": len(given),
            "used": len(self.items),
            "text": given.text,
            "pair": given.pair,
            "label": given.label,
            "guessed": list(given.guessed),
            "classes": {labels[i]: count for i, count in sorted(counts.items())},
            "without_labels": self.without_labels,
            "why_not": [
                {"why": why, "count": count} for why, count in self.refused.items() if count
            ],
        }


def take(
    given: Read,
    explainer: Explainer,
    chosen: Sequence[Chosen],
    *,
    truncate: bool,
    limit: int | None,
    seed: int,
) -> Taken:
    """Encode the examples, or as many of them as wanted, drawn by the seed; count by reason what cannot be taken."""
    _require_classes(explainer)
    refused: Counter[str] = Counter()
    needy = [one.name for one in chosen if one.entry.facts["labels"]]
    labelled = [example for example in given.examples if example.label is not None]
    # Some rows without a label are a gap in the data; none with one is a data set without labels.
    usable = labelled if needy and labelled else list(given.examples)
    refused["no label"] += len(given.examples) - len(usable)
    truth, why = _truth(usable, explainer.labels, needy)
    order = shuffled(usable, seed)[:limit] if limit is not None else range(len(usable))
    numbers = sorted(order)
    errors: list[WhenceError] = []

    def failed(_: int, __: Any, error: WhenceError) -> None:
        errors.append(error)
        refused[error.code.replace("-", " ")] += 1

    kept, items = taken([usable[i].given for i in numbers], explainer.loaded, truncate, failed)
    found = [(numbers[i], item) for i, item in zip(kept, items, strict=True)]
    words = [(i, item) for i, item in found if _content(item) >= FEWEST_TOKENS]
    refused["fewer than two tokens"] += len(found) - len(words)
    if not words:
        first = errors[0] if errors else None
        kind = type(first) if isinstance(first, InputError) else BadExamples
        said = str(first) if first is not None else "They have fewer than two tokens each."
        raise kind(f"None of the {len(numbers)} examples can be used. {said}")
    places = [i for i, _ in words]
    return Taken(
        [usable[i] for i in places],
        [item for _, item in words],
        None if truth is None else truth[places],
        refused,
        why,
    )


def _require_classes(explainer: Explainer) -> None:
    loaded = explainer.loaded
    if not loaded.classifies or loaded.task == "regression":
        what = "predicts a number" if loaded.classifies else "does not classify whole inputs"
        raise NoHead(
            f"{loaded.name!r} {what}: an audit compares distributions over classes. "
            "Give a model that classifies."
        )


def _truth(
    examples: Sequence[Example], labels: tuple[str, ...], needy: Sequence[str]
) -> tuple[NDArray[np.int64] | None, str | None]:
    """Return the true labels, which some experiments cannot do without, or why there are none."""
    try:
        return np.array(label_indices(examples, labels), dtype=np.int64), None
    except BadExamples as error:
        if not needy:
            return None, str(error)
        rest = [entry.name for entry in experiment if not entry.facts["labels"]]
        raise BadExamples(
            f"{error} {', '.join(needy)} cannot do without; these can: {', '.join(rest)} (--experiment NAME)."
        ) from None


def _content(item: Encoded) -> int:
    return sum(not token.special and token.segment == 0 for token in item.tokens)
