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


"""Explanations as files and pages keep them."""


"""An explanation as a file keeps it: the documented JSON object, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from operator import index
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_type_hints

import numpy as np

from whence.core.errors import CannotRead
from whence.core.types import Passes, Prediction, Source, Target, Token, Word
from whence.data.recorded import recorded, reread
from whence.explainer.kept.scaling import scale_for
from whence.explainer.kept.shown import Shown
from whence.view import VERSION
from whence.view.scale import Scale
from whence.view.words import WordsBy

if TYPE_CHECKING:
    from whence.explainer.explanation import Explanation

T = TypeVar("T")


def to_dict(explanation: "Explanation") -> dict[str, Any]:
    """Return the JSON object, with this one explanation in it."""
    own, shown = explanation, explanation.shown
    prediction = asdict(own.prediction)
    prediction["logits"] = list(prediction["logits"])
    return {
        "version": VERSION,
        "model": dict(own.model),
        "input": asdict(own.source),
        "tokens": [_facts(token) for token in own.tokens],
        "words": [{**_facts(word), "tokens": list(word.tokens)} for word in own.spans],
        "prediction": prediction,
        "target": asdict(own.target),
        "read": list(own.read),
        **_reading(own),
        "explanations": [
            {
                "method": own.method,
                "params": dict(own.params),
                "of": own.target.of,
                "signed": own.signed,
                "scores": own.scores.tolist(),
                "word_scores": own.word_scores.tolist(),
                "words_by": own.words_by,
                "scale": _scale(own),
                "axioms": dict(own.axioms),
                "passes": asdict(own.passes),
                "seconds": own.seconds,
                "dtype": str(own.scores.dtype),
                **({} if shown is None else shown.fine_to_dict()),
            }
        ],
        "provenance": dict(own.provenance),
        **_warnings(own),
        **({} if shown is None else {"picture": shown.to_dict()}),
    }


def fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an explanation from what `to_dict` returned."""
    if payload.get("version") != VERSION:
        raise CannotRead(
            f"This is version {payload.get('version')!r} of the format; this whence reads {VERSION}."
        )
    try:
        found = _fields(payload)
        _check(found)
    except (KeyError, TypeError, ValueError, AttributeError, OSError, SyntaxError) as error:
        raise CannotRead(
            f"This is not a saved explanation: {type(error).__name__} {error}. Give a file that save() wrote."
        ) from None
    return found


def _fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    (own,) = payload["explanations"]
    said, target = payload["prediction"], payload["target"]
    against, reading = target.get("against"), payload.get("reading")
    return {
        "scores": np.array(own["scores"], dtype=own["dtype"]),
        "tokens": tuple(_made(Token, token) for token in payload["tokens"]),
        "spans": tuple(
            _made(Word, {**word, "tokens": tuple(map(index, word["tokens"]))})
            for word in payload["words"]
        ),
        "source": _made(Source, payload["input"]),
        "prediction": _made(
            Prediction,
            {
                **said,
                "logits": tuple(map(float, said["logits"])),
                "probabilities": _numbers(said["probabilities"]),
            },
        ),
        "target": _made(
            Target, {**target, "against": None if against is None else _made(Target, against)}
        ),
        "method": str(own["method"]),
        "params": dict(own["params"]),
        "signed": bool(own["signed"]),
        **_words(own),
        "axioms": _numbers(own["axioms"]),
        "passes": _made(Passes, own["passes"]),
        "seconds": float(own["seconds"]),
        "model": dict(payload["model"]),
        "provenance": dict(payload["provenance"]),
        "read": tuple(map(index, payload.get("read", ()))),
        "shown": Shown.from_dict(payload["picture"], own) if payload.get("picture") else None,
        "reading": None if reading is None else reread(reading),
        "warnings": tuple(
            (str(one["code"]), str(one["message"])) for one in payload.get("warnings", ())
        ),
        "columns": None if reading is None else tuple(map(str, reading["labels"])),
    }


def _words(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the scores of words came about, and where they were measured, these; older files have sums."""
    by = own.get("words_by", "sum")
    if by not in get_args(WordsBy):
        raise ValueError(f"words_by is {by!r}")
    measured = np.array(own["word_scores"], dtype=own["dtype"]) if by == "measured" else None
    return {"words_by": by, "measured": measured}


def _check(found: Mapping[str, Any]) -> None:
    """Refuse what does not fit together."""
    scores, tokens, shown = found["scores"], found["tokens"], found["shown"]
    if scores.shape != (len(tokens),) or scores.dtype.kind != "f":
        raise ValueError(f"{scores.shape} scores for {len(tokens)} tokens")
    measured = found["measured"]
    if measured is not None and measured.shape != (len(found["spans"]),):
        raise ValueError(f"{measured.shape} scores for {len(found['spans'])} words")
    places = {place for word in found["spans"] for place in word.tokens}
    if not places.union(found["read"]) <= set(range(len(tokens))):
        raise ValueError("a word of tokens that are not there")
    if shown is not None and shown.grid[0] * shown.grid[1] != len(tokens):
        raise ValueError(f"{shown.grid} patches for {len(tokens)} tokens")
    columns, logits = found["columns"], found["prediction"].logits
    if columns is not None and len(columns) != len(logits):
        raise ValueError(f"{len(logits)} logits for {len(columns)} columns")


def _scale(explanation: "Explanation") -> Scale:
    """Return what the colours mean: by the words of a text, or the patches of a picture."""
    own = explanation
    scores = own.word_scores
    if not own.spans:
        free = [not token.special for token in own.tokens]
        scores = own.scores[free]
    return scale_for(
        own.method,
        own.params,
        scores.tolist(),
        signed=own.signed,
        of=own.target.of,
        is_value=own.prediction.probability is None,
        part="word" if own.shown is None else "patch",
    )


def _reading(explanation: "Explanation") -> dict[str, Any]:
    """Say how the model was read, unless its outputs are what is explained."""
    if explanation.reading is None:
        return {}
    labels = list(explanation.columns or ())
    return {"reading": {**recorded(explanation.reading), "labels": labels}}


def _warnings(explanation: "Explanation") -> dict[str, Any]:
    """Return what must be known of the input first, where there is anything."""
    said = [{"code": code, "message": message} for code, message in explanation.warnings]
    return {"warnings": said} if said else {}


@cache  # a file has thousands of records of one kind
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _facts(record: Token | Word) -> dict[str, Any]:
    """Return the fields of a record whose values are plain: `asdict` takes its time to copy them."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _made(kind: type[T], facts: Mapping[str, Any]) -> T:
    """Make a record of what a file says: every type checked, unknown fields of a later version left out."""
    known = _hints(cast(Any, kind))
    for name in known.keys() & facts.keys():
        hint = known[name]
        allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if all(isinstance(option, type) for option in allowed) and not isinstance(
            facts[name], allowed
        ):
            raise TypeError(f"{name} is {facts[name]!r}")
    return kind(**{name: facts[name] for name in known if name in facts})


def _numbers(facts: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in facts.items()}


"""The scale of an explanation's colours, from what its method states of its scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.methods import unit_of
from whence.view.scale import Scale, scale_of


def scale_for(
    name: str,
    params: Mapping[str, Any],
    scores: Sequence[float],
    *,
    signed: bool,
    of: str,
    is_value: bool,
    part: str = "word",
    count: int | None = None,
) -> Scale:
    """Return the scale of scores that a method gave, special tokens left out.

    `of` is what they measure; `is_value` says that the output is no probability, as a regression's.
    """
    return scale_of(
        scores,
        unit_of(name, params),
        signed=signed,
        of=of,
        is_value=is_value,
        part=part,
        count=count,
    )


"""The picture that an explanation is about, as the model sees it: kept with the explanation, and in its file."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.core.errors import BadParameter
from whence.data import Encoded
from whence.data.vision.image import LIMIT
from whence.report.picture.png import Pixels, decoded, encoded

Map = np.ndarray[Any, Any]  # (height, width)


def checked_size(size: Any) -> tuple[int, int]:
    """Refuse a size that no map can have."""
    sides = tuple(size) if isinstance(size, list | tuple | np.ndarray) else ()
    whole = [int(one) for one in sides if isinstance(one, int | np.integer) and one > 0]
    if len(sides) != 2 or len(whole) != 2 or whole[0] * whole[1] > LIMIT:
        raise BadParameter(
            f"A map's size is (height, width) in pixels, at most {LIMIT / 1e6:.0f} million of them. Got {size!r}."
        )
    return whole[0], whole[1]


@dataclass(frozen=True, eq=False)
class Shown:
    """A picture cut into patches."""

    grid: tuple[int, int]  # patches down and across
    pixels: Pixels  # (height, width, 3)
    name: str | None
    fine: Map | None = None  # a score for each pixel, where the method gives one

    @classmethod
    def of(cls, item: Encoded, fine: Map | None) -> "Shown | None":
        """Return the picture of an input, if it is one."""
        own = item.picture
        return None if own is None else cls(own.grid, own.shown, own.name, fine)

    @property
    def size(self) -> tuple[int, int]:
        """Its height and width in pixels."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says of the picture."""
        height, width = self.size
        png = encoded(self.pixels)
        return {
            "name": self.name,
            "width": width,
            "height": height,
            "grid": list(self.grid),
            "png": png,
        }

    def fine_to_dict(self) -> dict[str, Any]:
        """Return what a file says of the pixels' scores."""
        if self.fine is None:
            return {}
        values = np.ascontiguousarray(self.fine, dtype=self.fine.dtype.newbyteorder("<"))
        return {"pixels": b64encode(values.tobytes()).decode("ascii")}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any], own: Mapping[str, Any]) -> "Shown":
        """Read what `to_dict` and `fine_to_dict` wrote; what does not fit is a ValueError."""
        pixels = decoded(payload["png"])
        down, across = map(int, payload["grid"])
        size = (int(payload["height"]), int(payload["width"]))
        if pixels.shape[:2] != size or down < 1 or across < 1:
            raise ValueError(
                f"a picture of {pixels.shape}, {size} pixels and {down} x {across} patches"
            )
        fine = None
        if "pixels" in own:
            kind = np.dtype(own["dtype"]).newbyteorder("<")
            fine = np.frombuffer(b64decode(own["pixels"], validate=True), kind).reshape(size)
            fine = fine.astype(own["dtype"])
        name = payload.get("name")
        return cls((down, across), pixels, None if name is None else str(name), fine)
