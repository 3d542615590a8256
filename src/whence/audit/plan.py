"""What an audit will take, said before it starts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from whence.audit.chosen import Chosen


@dataclass(frozen=True)
class Plan:
    """The size of an audit, and what it will cost."""

    n: int  # examples
    tokens: float  # of an example, in the mean
    layers: int
    heads: int
    sites: int
    train: int = 0  # training examples
    epochs: int | None = None
    replay: float = 1.0  # what a pass from the attention on takes, in forward passes
    seconds: float = 0.0  # of one forward pass of one example
    about: str = ""  # the model and the data
    chosen: Sequence[Chosen] = field(default=())

    def forwards(self, one: Chosen) -> float:
        """Return what an experiment takes, in forward passes of one example."""
        return float(one.entry.facts["calls"](self, one.params))

    @property
    def total(self) -> float:
        """What all experiments take."""
        return sum(self.forwards(one) for one in self.chosen)

    def lines(self) -> list[str]:
        """Say what will be done and how long it takes."""
        each = ", ".join(
            f"{one.name} {spoken(self.forwards(one) * self.seconds)}" for one in self.chosen
        )
        return [
            self.about,
            f"It will take {spoken(self.total * self.seconds)} on this machine: {each}.",
        ]


def spoken(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 1:
        return "less than a second"
    for size, name in ((3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
        if seconds >= 1.5 * size or size == 1.0:
            count = max(1, round(seconds / size))
            return f"about {count} {name}{'' if count == 1 else 's'}"
    raise AssertionError("the last size always fits")
