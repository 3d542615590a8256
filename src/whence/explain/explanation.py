"""What explaining returns: scores, what they are scores of, and where they come from."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whence.core.errors import BadParameter, CannotRead
from whence.core.io import read_json, write_text, written
from whence.core.types import Of, Passes, Prediction, Source, Target, Token, Word
from whence.data import Encoded
from whence.data.reading import Reading
from whence.data.removal import Removal
from whence.data.text.pieces import Granularity, check, pieces, unmarked
from whence.explainer.kept import saved
from whence.explainer.kept.shown import Shown, checked_size
from whence.report import fragment, plain
from whence.trust import Trust
from whence.view.heat import heatmap
from whence.view.segments import SegmentScore, by_segment
from whence.view.words import WordsBy

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.explainer.explainer import Explainer


@dataclass(frozen=True, slots=True)
class WordScore:
    """A word, or another piece of a text, with its score."""

    text: str
    start: int | None
    end: int | None
    segment: int
    tokens: tuple[int, ...]
    score: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why the model said what it said about one input, according to one method."""

    scores: np.ndarray[Any, Any]  # one number per token, special ones included, nothing rescaled
    tokens: tuple[Token, ...]
    spans: tuple[Word, ...]
    source: Source
    prediction: Prediction
    target: Target
    method: str
    params: Mapping[str, Any]
    signed: bool
    axioms: Mapping[
        str, float
    ]  # what the method promises, and by how much this explanation misses it
    passes: Passes
    seconds: float
    model: Mapping[str, Any]
    provenance: Mapping[str, Any]
    shown: Shown | None = None  # the picture, if it is one that was explained
    # The tokens at which the model was read (an entity's, a mask, the first and last of an answer); none: as a whole.
    read: tuple[int, ...] = ()
    # How it was read there, and the names of the outputs that this makes; None: its outputs are its labels.
    reading: Reading | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    # What a reader must know of the input first, each a code and a sentence.
    warnings: tuple[tuple[str, str], ...] = ()
    # What was asked for, to ask it again: some methods measure a probability, which `target` says, whatever it was.
    wanted: Of | None = field(default=None, repr=False)
    # How the score of a word comes about, and what was measured on whole words, where it was.
    words_by: WordsBy = "sum"
    measured: np.ndarray[Any, Any] | None = field(default=None, repr=False)
    # What it takes to test the explanation; an explanation from a file comes without.
    explainer: "Explainer | None" = field(default=None, repr=False)
    item: Encoded | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # A copy, or a pickle, does not take the model along.
        return {**self.__dict__, "explainer": None}

    @property
    def asked(self) -> Target:
        """The target as it was asked for, to be explained by another method, or looked into."""
        of = self.wanted or self.target.of
        against = self.target.against
        return replace(
            self.target, of=of, against=None if against is None else replace(against, of=of)
        )

    @property
    def word_scores(self) -> np.ndarray[Any, Any]:
        """One number per word: the sum of its tokens' scores, or where these do not add up, what `words_by` says."""
        if self.measured is not None:
            return self.measured
        own = [self.scores[list(word.tokens)] for word in self.spans]
        found = [one.sum() if self.words_by == "sum" else one.mean() for one in own]
        return np.array(found, dtype=self.scores.dtype)

    @property
    def grid(self) -> tuple[int, int] | None:
        """How many patches the picture has, down and across; None for a text."""
        return None if self.shown is None else self.shown.grid

    @property
    def picture(self) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
        """The picture as the model sees it, (height, width, 3); None for a text."""
        return None if self.shown is None else self.shown.pixels

    def heatmap(self, size: tuple[int, int] | None = None) -> np.ndarray[Any, Any]:
        """Spread the scores over the picture, (height, width): bilinear between the middles of the patches.

        Where the method gives every pixel a score (full_lrp), without a `size` it is these.
        """
        if self.shown is None:
            raise BadParameter("A text has no heat map: its scores are those of tokens and words.")
        if size is None and self.shown.fine is not None:
            return self.shown.fine
        sides = self.shown.size if size is None else checked_size(size)
        return heatmap(self.scores, self.shown.grid, sides)

    def words(self) -> list[WordScore]:
        """The words in the order of the text, with their scores."""
        return [
            WordScore(w.text, w.start, w.end, w.segment, w.tokens, float(score))
            for w, score in zip(self.spans, self.word_scores, strict=True)
        ]

    def top(self, k: int = 5) -> list[WordScore]:
        """The k words that count most, by the size of their scores."""
        return sorted(self.words(), key=lambda word: -abs(word.score))[:k]

    def by_segment(self) -> dict[int, float]:
        """The sum of the scores of each text of a pair, 0 the first and 1 the second; special tokens do not count."""
        return {one.segment: one.total for one in self.segments()}

    def segments(self) -> list[SegmentScore]:
        """The texts of a pair, with their sums and their parts of all scores."""
        return by_segment(
            [token.segment for token in self.tokens],
            [token.special for token in self.tokens],
            self.scores.tolist(),
        )

    def pieces(
        self, granularity: Granularity = "sentence", marked: str | None = None
    ) -> list[WordScore]:
        """The scores added up by "token", "word", "sentence", "paragraph" or "passage", in the order of the text.

        A word has its score of `word_scores`, which is not a sum for every method. Passages are those of `marked`,
        the same text with marks: [[a passage]]. Special tokens are left out.
        """
        text, marks = (self.source.text, ()) if marked is None else unmarked(marked)
        if text != self.source.text or (granularity == "passage" and marked is None):
            raise BadParameter(
                "granularity='passage' takes the explained text with passages marked: marked='... [[a passage]]'. "
                "Give the same text, with marks and no other change."
            )
        texts = (self.source.text, self.source.pair)
        found = pieces(self.tokens, self.spans, texts, check(granularity), marks)
        words = zip(self.spans, self.word_scores, strict=True)
        known = {word.tokens: score for word, score in words} if granularity == "word" else {}
        return [
            WordScore(
                p.text,
                p.start,
                p.end,
                p.segment,
                p.tokens,
                float(known.get(p.tokens, self.scores[list(p.tokens)].sum())),
            )
            for p in found
            if not p.special
        ]

    def trust(
        self,
        budget: int | None = None,
        *,
        remove: Removal | Literal["all"] | None = None,
        unit: Literal["token", "word"] = "token",
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
        explainer: "Explainer | None" = None,
    ) -> Trust:
        """Test this explanation, as it is, on the model it is about: see `Explainer.trust` for the options.

        An explanation that was read from a file needs the `explainer`.
        """
        known = explainer or self.explainer
        if known is None:
            raise CannotRead(
                "This explanation came without its model. Give it: explanation.trust(explainer=whence.load(...))."
            )
        return known.trust(
            self, budget=budget, remove=remove, unit=unit, seed=seed, progress=progress
        )

    @cached_property
    def doubts(self) -> tuple[tuple[str, str], ...]:
        """What the model says against this explanation, each a code and a sentence: asked once, when it is shown.

        That is whether the strongest word has the wrong sign. An explanation from a file has no model to ask.
        """
        from whence.explainer.verify.signs import doubted_sign

        found = None if self.explainer is None else doubted_sign(self.explainer, self)
        return () if found is None else (found,)

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object, with this one explanation in it."""
        return saved.to_dict(self)

    def to_shown(self) -> dict[str, Any]:
        """Return the same object for people to see: with the doubts that the model was asked about."""
        payload = saved.to_dict(self)
        said = [{"code": code, "message": message} for code, message in self.doubts]
        return {**payload, "warnings": [*payload.get("warnings", ()), *said]} if said else payload

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Explanation":
        """Build an explanation from what `to_dict` returned."""
        return cls(**saved.fields(payload))

    def save(self, path: str | Path) -> Path:
        """Write the explanation as JSON; numbers come back bit for bit."""
        return write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Explanation":
        """Read what `save` wrote."""
        payload = read_json(path)
        if not isinstance(payload, dict):
            raise CannotRead(
                f"{str(path)!r} is not a saved explanation. Give a file that save() wrote."
            )
        return cls.from_dict(payload)

    def to_html(self, path: str | Path | None = None, *, flows: bool = True) -> str:
        """Return one page that opens from disk with no network, and write it if a path is given.

        Through its script the page shows how information flowed, for which the model is run a few times more;
        `flows=False` leaves that out. Without scripts it shows text and tables.
        """
        from whence.explainer.kept.page import offline

        return written(offline([[self]], flows=flows), path)

    def __str__(self) -> str:
        return plain(self.to_shown())

    def __repr__(self) -> str:
        best = ", ".join(f"{word.text} {word.score:+.3g}" for word in self.top(3))
        return f"<Explanation {self.method} of {self.target}: {best}>"

    def __rich__(self) -> "RenderableType":
        from whence.report.terminal import render

        return render(self.to_shown())

    def _repr_html_(self) -> str:
        return fragment(self.to_shown())
