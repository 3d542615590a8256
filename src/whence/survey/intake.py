"""From a data set to the inputs that a model can take, a few at a time; what it cannot take is counted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.core.errors import BadExamples, BadParameter, BadPicture, InputError, WhenceError
from whence.data import Encoded
from whence.data.sets.examples import Example, Read, shuffled
from whence.explainer import Explainer
from whence.explainer.aims.each import Failed
from whence.explainer.verify.testing import taken
from whence.explainer.work import Progress

_AT_ONCE = 64  # inputs between two looks at whether anybody wants to go on
_NAMED = 5


def places(given: Read, limit: int | None, *, drawn: bool) -> list[int]:
    """Return the numbers of the rows to take: the first so many, or so many that are drawn, in their order."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1, or None. Got {limit!r}.")
    order = shuffled(given.examples) if drawn else range(len(given))
    return sorted(order[:limit])


def require_words(explainer: Explainer) -> None:
    """Refuse a model of pictures where words are counted: one patch is not another picture's patch."""
    if explainer.loaded.sees:
        raise BadPicture(
            f"{explainer.loaded.name!r} takes pictures, and patches are no words that come again elsewhere. Take "
            "a model of texts; whence.evaluate and whence.audit take pictures."
        )


@dataclass(frozen=True)
class Group:
    """Some inputs of like length: their numbers in the data set, and what was made of them."""

    numbers: list[int]
    given: list[Any]
    items: list[Encoded]
    progress: Progress


@dataclass
class Intake:
    """Hands out inputs in groups, and remembers what had to be left out or cut."""

    explainer: Explainer
    examples: Sequence[Example]
    numbers: list[int]
    progress: Progress | None = None
    used: int = 0
    _refused: dict[str, tuple[str, list[int]]] = field(
        default_factory=dict
    )  # by kind: why, and which
    _first: WhenceError | None = None
    _cut: list[int] = field(default_factory=list)

    def groups(self) -> Iterator[Group]:
        """Yield the inputs in groups of like length; `Group.progress` counts on from what came before it."""
        numbers = sorted(self.numbers, key=lambda i: (-_length(self.examples[i]), i))
        for start in range(0, len(numbers), _AT_ONCE):
            here = numbers[start : start + _AT_ONCE]
            kept, items = taken(
                [self.examples[i].given for i in here],
                self.explainer.loaded,
                True,
                self._unreadable(here),
            )
            own = [here[place] for place in kept]
            self.used += len(own)
            self._cut += [i for i, item in zip(own, items, strict=True) if item.source.dropped]
            if own:
                texts = [self.examples[i].given for i in own]
                yield Group(own, texts, items, self._counting(start, len(here)))
            self.report(start + len(here))
        if not self.used:
            kind = type(self._first) if isinstance(self._first, InputError) else BadExamples
            raise kind(f"None of the {len(numbers)} examples can be used. {self._first}")

    def report(self, done: int) -> None:
        """Say how many inputs are done; whoever listens may raise, to end it here."""
        if self.progress is not None:
            self.progress(done, len(self.numbers))

    def refuse(self, number: int, kind: str, why: str) -> None:
        """Count an input that was handed out and turned out to be of no use."""
        self.used -= 1
        self._count(number, kind, why)

    def left_out(self) -> list[str]:
        """Say in sentences what was left out, and what was cut."""
        said = []
        for why, numbers in self._refused.values():
            which = ", ".join(str(i) for i in sorted(numbers)[:_NAMED])
            more = ", ..." if len(numbers) > _NAMED else ""
            said.append(f"{_rows(len(numbers))} left out (number {which}{more}): {why}")
        if self._cut:
            longest = self.explainer.loaded.max_length
            said.append(
                f"{_rows(len(self._cut))} cut to the {longest} tokens that the model takes."
            )
        return said

    def drawn(self) -> list[str]:
        """Say so where only a sample of the rows was taken."""
        sample, given = len(self.numbers), len(self.examples)
        return [f"{sample} of {given} rows were drawn at random."] if sample < given else []

    def _count(self, number: int, kind: str, why: str) -> None:
        self._refused.setdefault(kind, (why, []))[1].append(number)

    def _unreadable(self, numbers: Sequence[int]) -> Failed:
        def failed(place: int, _: str | None, error: WhenceError) -> None:
            self._first = self._first or error
            self._count(numbers[place], error.code, str(error))

        return failed

    def _counting(self, start: int, size: int) -> Progress:
        return lambda done, total: self.report(start + size * done // max(total, 1))


def _rows(n: int) -> str:
    return "1 row was" if n == 1 else f"{n} rows were"


def _length(example: Example) -> int:
    return sum(map(len, example.texts))
