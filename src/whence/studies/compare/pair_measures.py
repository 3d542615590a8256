"""Both models looked into, batch by batch; what remains of an input is a few numbers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.comparison.heads import Measured, measured
from whence.comparison.match import check_shape, check_tokens
from whence.comparison.overlap import Overlap, overlap
from whence.comparison.rows import read_rows
from whence.comparison.views import View, policy, views
from whence.core.errors import BadExamples, InputError, WhenceError
from whence.core.types import Prediction
from whence.data import Encoded, batches
from whence.data.sets.examples import Example, Read
from whence.explainer import Explainer
from whence.explainer.verify.testing import taken
from whence.flow import Name


@dataclass(frozen=True)
class Looked:
    """What was found of one input."""

    measured: Measured
    overlap: Overlap
    said: tuple[Prediction | None, Prediction | None]


@dataclass
class Seen:
    """What was found of the inputs that both models could take, in the order of the data."""

    examples: list[Example]
    looked: list[Looked]
    shape: tuple[int, int]  # layers, heads
    tokens: int
    cut: int
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def measured(self) -> list[Measured]:
        """How the heads attended, input by input."""
        return [one.measured for one in self.looked]

    @property
    def overlaps(self) -> list[Overlap]:
        """What the flows had in common, input by input."""
        return [one.overlap for one in self.looked]

    @property
    def said(self) -> tuple[list[Prediction | None], list[Prediction | None]]:
        """What the two models predicted."""
        return [one.said[0] for one in self.looked], [one.said[1] for one in self.looked]

    def order(self) -> list[int]:
        """Return the inputs in an order that does not depend on the one they came in."""
        return sorted(range(len(self.examples)), key=lambda i: repr(self.examples[i]))

    def facts(self, given: Read, drawn: int) -> dict[str, Any]:
        """Say what was read and used, as plain data."""
        used = len(self.examples)
        return {
            "name": given.name,
            "given": len(given),
            "drawn": drawn,
            "used": used,
            "cut": self.cut,
            "tokens": self.tokens / used,
            "text": given.text,
            "pair": given.pair,
            "label": given.label,
            "guessed": list(given.guessed),
            "why_not": [{"why": why, "count": count} for why, count in self.refused.items()],
        }


def look(
    models: tuple[Explainer, Explainer],
    examples: Sequence[Example],
    *,
    weight: Name,
    coverage: float,
    specials: bool,
    truncate: bool,
    seed: int,
    done: Callable[[int], None],
) -> Seen:
    """Look into both models on every example; those that cannot be taken are counted by reason."""
    numbers, sides, refused = _taken(models, examples, truncate)
    done(len(examples) - len(numbers))
    items = sides[0]
    loaded = (models[0].loaded, models[1].loaded)
    names = (loaded[0].name, loaded[1].name)
    found: dict[int, Looked] = {}
    shape = (0, 0)
    for chosen in batches(items, policy(loaded, sides, weight)):
        seen = [
            views(one, [side[i] for i in chosen], weight)
            for one, side in zip(loaded, sides, strict=True)
        ]
        for place, one, other in zip(chosen, *seen, strict=True):
            shape = one.shape
            check_shape(shape, other.shape, names)
            found[place] = _looked(items[place], one, other, coverage, specials, seed)
        done(len(chosen))
    return Seen(
        [examples[i] for i in numbers],
        [found[place] for place in range(len(items))],
        shape,
        sum(len(item) for item in items),
        sum(bool(item.source.dropped) for item in items),
        refused,
    )


def _taken(
    models: tuple[Explainer, Explainer], examples: Sequence[Example], truncate: bool
) -> tuple[list[int], tuple[list[Encoded], list[Encoded]], Counter[str]]:
    """Encode the examples for both models, which must make the same tokens of each."""
    refused: dict[int, WhenceError] = {}

    def failed(number: int, _: str | None, error: WhenceError) -> None:
        if not isinstance(error, InputError):
            raise error
        refused.setdefault(number, error)

    texts = [example.given for example in examples]
    names = (models[0].loaded.name, models[1].loaded.name)
    encoded = [
        dict(zip(*taken(texts, one.loaded, truncate, failed), strict=True)) for one in models
    ]
    numbers = [number for number in encoded[0] if number in encoded[1]]
    if not numbers:
        first = min(refused.items(), key=lambda pair: pair[0])[1]
        kind = type(first) if isinstance(first, InputError) else BadExamples
        raise kind(f"None of the {len(examples)} examples can be used. {first}")
    for number in numbers:
        one, other = encoded[0][number], encoded[1][number]
        check_tokens(one.source.text, one.tokens, other.tokens, names)
    reasons = Counter(error.code.replace("-", " ") for error in refused.values())
    return numbers, ([encoded[0][i] for i in numbers], [encoded[1][i] for i in numbers]), reasons


def _looked(
    item: Encoded, one: View, other: View, coverage: float, specials: bool, seed: int
) -> Looked:
    roots = read_rows(one, other)
    rows = (roots[0] + roots[1]) / 2
    return Looked(
        measured(one.maps, other.maps, rows, item.tokens, seed),
        overlap(one.weights, other.weights, roots, coverage, item.tokens, seed, specials),
        (one.prediction, other.prediction),
    )
