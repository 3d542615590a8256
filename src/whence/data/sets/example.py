"""One input of a data set: a text, a pair of texts or a picture, with a label and what people marked."""

from dataclasses import dataclass

from whence.data.sets import pictures
from whence.data.sets.rationale import Span


@dataclass(frozen=True, slots=True)
class Example:
    """One input, and what people said about it."""

    given: str | tuple[str, str] | pictures.Stored
    label: str | None = None
    rationale: tuple[Span, ...] | None = None  # None: nobody was asked
    mask: pictures.Outlined | None = None  # of a picture: what a person outlined

    @property
    def seen(self) -> bool:
        """Whether it is a picture."""
        return isinstance(self.given, pictures.Stored)

    @property
    def texts(self) -> tuple[str, ...]:
        """Its text, or both of a pair; none of a picture."""
        if isinstance(self.given, pictures.Stored):
            return ()
        return (self.given,) if isinstance(self.given, str) else self.given
