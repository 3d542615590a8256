"""Explanation: scores of one input by one method, word scores, image map, provenance; JSON written and parsed."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from operator import index
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_type_hints

import numpy as np

from whence.core.errors import BadParameter, CannotRead
from whence.core.files import write_if_path
from whence.core.result import Result
from whence.core.types import InputText, OutputScale, PassCount, Prediction, Target, Token, Word
from whence.data.images import MAX_PIXELS
from whence.data.readout import Readout, dump_readout, parse_readout
from whence.data.removal import Removal
from whence.data.tokens import EncodedInput
from whence.data.words import Granularity, check_granularity, parse_passage_marks, split_pieces
from whence.explain.word_scores import (
    PAYLOAD_VERSION,
    SegmentScore,
    WordAggregation,
    compute_colour_scale,
    sum_by_segment,
)
from whence.methods import resolve_score_unit
from whence.render.colour import compute_heatmap
from whence.render.image_maps import Pixels, decode_png_base64, encode_png_base64
from whence.trust.card import Trust

if TYPE_CHECKING:
    from whence.explain.explainer import Explainer
    from whence.render.document import Document

PixelMap = np.ndarray[Any, Any]  # (height, width)


@dataclass(frozen=True, eq=False)
class ExplainedImage:
    """An explained image with its patch grid."""

    grid: tuple[int, int]  # patches down and across
    pixels: Pixels  # (height, width, 3)
    name: str | None
    fine: PixelMap | None = None  # a score for each pixel, where the method gives one

    @property
    def size(self) -> tuple[int, int]:
        """The height and width in pixels."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def to_dict(self) -> dict[str, Any]:
        """Return the image as JSON data: name, size, grid and PNG."""
        height, width = self.size
        facts = {"name": self.name, "width": width, "height": height, "grid": list(self.grid)}
        return {**facts, "png": encode_png_base64(self.pixels)}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any], entry: Mapping[str, Any]) -> "ExplainedImage":
        """Parse the data of `to_dict`, with the pixel scores of an entry; raise ValueError where sizes do not match."""
        pixels = decode_png_base64(payload["png"])
        down, across = map(int, payload["grid"])
        size = (int(payload["height"]), int(payload["width"]))
        if pixels.shape[:2] != size or down < 1 or across < 1:
            raise ValueError(
                f"a picture of {pixels.shape}, {size} pixels and {down} x {across} patches"
            )
        fine = None
        if "pixels" in entry:
            kind = np.dtype(entry["dtype"]).newbyteorder("<")
            fine = np.frombuffer(b64decode(entry["pixels"], validate=True), kind).reshape(size)
            fine = fine.astype(entry["dtype"])
        name = payload.get("name")
        return cls((down, across), pixels, None if name is None else str(name), fine)


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
class Explanation(Result):
    """The scores of one input by one method, with target, prediction, tokens and provenance."""

    kind = "explanation"

    scores: np.ndarray[Any, Any]  # one number per token, special ones included, nothing rescaled
    tokens: Sequence[Token]
    spans: Sequence[Word]
    source: InputText
    prediction: Prediction
    target: Target
    method: str
    params: Mapping[str, Any]
    signed: bool
    axioms: Mapping[str, float]  # the residual of each axiom that the method states
    passes: PassCount
    seconds: float
    model: Mapping[str, Any]
    provenance: Mapping[str, Any]
    shown: ExplainedImage | None = None  # the explained picture; None for a text
    # Positions of the readout (an entity, a mask, the first and last token of an answer); empty: the whole input.
    read: tuple[int, ...] = ()
    # The readout, and the names of its outputs; None: the outputs are the model's labels.
    reading: Readout | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    # Warnings about the input, each a code and a sentence.
    warnings: Sequence[tuple[str, str]] = ()
    # The requested output scale, for repeats: some methods always measure a probability, and `target` then says so.
    wanted: OutputScale | None = field(default=None, repr=False)
    # How word scores are made from token scores, or the scores measured on whole words.
    words_by: WordAggregation = "sum"
    measured: np.ndarray[Any, Any] | None = field(default=None, repr=False)
    # The explainer and input, needed to test the explanation; None for an explanation from a file.
    explainer: "Explainer | None" = field(default=None, repr=False)
    item: EncodedInput | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles do not hold the model.
        return {**self.__dict__, "explainer": None}

    @property
    def original_target(self) -> Target:
        """The target with the requested output scale, for another method or for `inside`."""
        of = self.wanted or self.target.of
        against = self.target.against
        return replace(
            self.target, of=of, against=None if against is None else replace(against, of=of)
        )

    @property
    def word_scores(self) -> np.ndarray[Any, Any]:
        """One score per word: the sum of its tokens' scores, or the aggregate that `words_by` names."""
        if self.measured is not None:
            return self.measured
        parts = [self.scores[list(word.tokens)] for word in self.spans]
        values = [part.sum() if self.words_by == "sum" else part.mean() for part in parts]
        return np.array(values, dtype=self.scores.dtype)

    @property
    def grid(self) -> tuple[int, int] | None:
        """The numbers of patches down and across the picture; None for a text."""
        return None if self.shown is None else self.shown.grid

    @property
    def picture(self) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
        """The picture as the model sees it, (height, width, 3); None for a text."""
        return None if self.shown is None else self.shown.pixels

    def heatmap(self, size: tuple[int, int] | None = None) -> np.ndarray[Any, Any]:
        """Spread the scores over the picture, (height, width): bilinear between the middles of the patches.

        Without a `size`, a method that scores every pixel (full_lrp) gives these scores.
        """
        if self.shown is None:
            raise BadParameter("A text has no heat map: its scores are those of tokens and words.")
        if size is None and self.shown.fine is not None:
            return self.shown.fine
        if size is None:
            return compute_heatmap(self.scores, self.shown.grid, self.shown.size)
        sides = tuple(size) if isinstance(size, list | tuple | np.ndarray) else ()
        whole = [int(side) for side in sides if isinstance(side, int | np.integer) and side > 0]
        if len(sides) != 2 or len(whole) != 2 or whole[0] * whole[1] > MAX_PIXELS:
            raise BadParameter(
                f"A map's size is (height, width) in pixels, at most {MAX_PIXELS / 1e6:.0f} million of them. Got {size!r}."
            )
        return compute_heatmap(self.scores, self.shown.grid, (whole[0], whole[1]))

    def words(self) -> list[WordScore]:
        """Return the words in the order of the text, with their scores."""
        return [
            WordScore(w.text, w.start, w.end, w.segment, w.tokens, float(score))
            for w, score in zip(self.spans, self.word_scores, strict=True)
        ]

    def top(self, k: int = 5) -> list[WordScore]:
        """Return the k words with the largest |scores|."""
        return sorted(self.words(), key=lambda word: -abs(word.score))[:k]

    def by_segment(self) -> dict[int, float]:
        """Return the sum of the scores of each text of a pair, 0 and 1; special tokens do not count."""
        return {segment.segment: segment.total for segment in self.segments()}

    def segments(self) -> list[SegmentScore]:
        """Return the texts of a pair, with their sums and their shares of all scores."""
        return sum_by_segment(
            [token.segment for token in self.tokens],
            [token.special for token in self.tokens],
            self.scores.tolist(),
        )

    def pieces(
        self, granularity: Granularity = "sentence", marked: str | None = None
    ) -> list[WordScore]:
        """Return the scores summed by "token", "word", "sentence", "paragraph" or "passage", in text order.

        A word has its score of `word_scores`, which is not a sum for every method. Passages are those of `marked`,
        the same text with marks: [[a passage]]. Special tokens are left out.
        """
        text, marks = (self.source.text, ()) if marked is None else parse_passage_marks(marked)
        if text != self.source.text or (granularity == "passage" and marked is None):
            raise BadParameter(
                "granularity='passage' takes the explained text with passages marked: marked='... [[a passage]]'. "
                "Give the same text, with marks and no other change."
            )
        texts = (self.source.text, self.source.pair)
        pieces = split_pieces(self.tokens, self.spans, texts, check_granularity(granularity), marks)
        words = zip(self.spans, self.word_scores, strict=True)
        known = {word.tokens: score for word, score in words} if granularity == "word" else {}
        scored = []
        for piece in pieces:
            if not piece.special:
                places = piece.tokens
                score = float(known.get(places, self.scores[list(places)].sum()))
                where = (piece.text, piece.start, piece.end, piece.segment)
                scored.append(WordScore(*where, places, score))
        return scored

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
        """Test this explanation on its model; see `Explainer.trust` for the options.

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
        """Warnings from a query of the model, each a code and a sentence; computed once, on display.

        The query tests the sign of the strongest word. An explanation from a file has no model to query.
        """
        from whence.explain.trials import find_sign_doubt

        try:
            doubt = None if self.explainer is None else find_sign_doubt(self.explainer.loaded, self)
        except Exception:  # a failure must not keep the explanation from being shown
            doubt = None
        return () if doubt is None else (doubt,)

    @property
    def data(self) -> Mapping[str, Any]:
        """The documented JSON object, with this one explanation in it."""
        return self.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object, with this one explanation in it."""
        image, prediction, word_scores = self.shown, asdict(self.prediction), self.word_scores
        # Images, and inputs without words, are shaded by token.
        free = word_scores if self.spans else self.scores[[not t.special for t in self.tokens]]
        scale = compute_colour_scale(
            free.tolist(),
            resolve_score_unit(self.method, self.params),
            signed=self.signed,
            of=self.target.of,
            is_value=self.prediction.probability is None,
            part="word" if image is None else "patch",
        )
        payload: dict[str, Any] = {
            "version": PAYLOAD_VERSION,
            "model": dict(self.model),
            "input": asdict(self.source),
            # Slot by slot: `asdict` copies deeply, and there are thousands of them.
            "tokens": [{name: getattr(t, name) for name in Token.__slots__} for t in self.tokens],
            "words": [
                {name: getattr(word, name) for name in Word.__slots__}
                | {"tokens": list(word.tokens)}
                for word in self.spans
            ],
            "prediction": {**prediction, "logits": list(prediction["logits"])},
            "target": asdict(self.target),
            "read": list(self.read),
        }
        if self.reading is not None:  # else the outputs are the model's labels
            labels = list(self.columns or ())
            payload["reading"] = {**dump_readout(self.reading), "labels": labels}
        entry = {
            "method": self.method,
            "params": dict(self.params),
            "of": self.target.of,
            "signed": self.signed,
            "scores": self.scores.tolist(),
            "word_scores": word_scores.tolist(),
            "words_by": self.words_by,
            "scale": scale,
            "axioms": dict(self.axioms),
            "passes": asdict(self.passes),
            "seconds": self.seconds,
            "dtype": str(self.scores.dtype),
        }
        if image is not None and image.fine is not None:
            values = np.ascontiguousarray(image.fine, dtype=image.fine.dtype.newbyteorder("<"))
            entry["pixels"] = b64encode(values.tobytes()).decode("ascii")
        payload["explanations"] = [entry]
        payload["provenance"] = dict(self.provenance)
        if self.warnings:
            payload["warnings"] = [{"code": code, "message": m} for code, m in self.warnings]
        return payload if image is None else {**payload, "picture": image.to_dict()}

    def to_display_dict(self) -> dict[str, Any]:
        """Return the JSON object for display: with `doubts` added to its warnings."""
        payload = self.to_dict()
        more = [{"code": code, "message": message} for code, message in self.doubts]
        return {**payload, "warnings": [*payload.get("warnings", ()), *more]} if more else payload

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Explanation":
        """Build an explanation from the data of `to_dict`."""
        if not isinstance(payload, Mapping):
            raise CannotRead(
                "This is not a saved explanation. Give a .json file that save() wrote."
            )
        if payload.get("version") != PAYLOAD_VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {PAYLOAD_VERSION}."
            )
        try:
            fields = _parse_fields(payload)
            _check_fields(fields)
        except (KeyError, TypeError, ValueError, AttributeError, OSError, SyntaxError) as error:
            raise CannotRead(
                f"This is not a saved explanation: {type(error).__name__} {error}. Give a file that save() wrote."
            ) from None
        return cls(**fields)

    def to_html(self, path: str | Path | None = None, *, flows: bool = True) -> str:
        """Return an HTML page that needs no network, and write it if a path is given.

        Through its script the page shows how information flowed, for which the model is run a few times more;
        `flows=False` leaves that out. Without scripts it shows text and tables.
        """
        from whence.explain.page import render_page

        return write_if_path(render_page([[self]], flows=flows), path)

    def document(self) -> "Document":
        """Return the blocks that every surface shows."""
        from whence.explain.report import build_document

        return build_document([self.to_display_dict()])

    def __repr__(self) -> str:
        best = ", ".join(f"{word.text} {word.score:+.3g}" for word in self.top(3))
        return f"<Explanation {self.method} of {self.target}: {best}>"


T = TypeVar("T")


def _parse_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    (entry,) = payload["explanations"]
    prediction, target = payload["prediction"], payload["target"]
    against, reading = target.get("against"), payload.get("reading")
    by, dtype = entry.get("words_by", "sum"), entry["dtype"]  # older files have sums
    if by not in get_args(WordAggregation):
        raise ValueError(f"words_by is {by!r}")
    return {
        "scores": np.array(entry["scores"], dtype=dtype),
        "tokens": tuple(_build_record(Token, token) for token in payload["tokens"]),
        "spans": tuple(
            _build_record(Word, {**word, "tokens": tuple(map(index, word["tokens"]))})
            for word in payload["words"]
        ),
        "source": _build_record(InputText, payload["input"]),
        "prediction": _build_record(
            Prediction,
            {
                **prediction,
                "logits": tuple(map(float, prediction["logits"])),
                "probabilities": _to_floats(prediction["probabilities"]),
            },
        ),
        "target": _build_record(
            Target,
            {**target, "against": None if against is None else _build_record(Target, against)},
        ),
        "method": str(entry["method"]),
        "params": dict(entry["params"]),
        "signed": bool(entry["signed"]),
        "words_by": by,
        "measured": np.array(entry["word_scores"], dtype=dtype) if by == "measured" else None,
        "axioms": _to_floats(entry["axioms"]),
        "passes": _build_record(PassCount, entry["passes"]),
        "seconds": float(entry["seconds"]),
        "model": dict(payload["model"]),
        "provenance": dict(payload["provenance"]),
        "read": tuple(map(index, payload.get("read", ()))),
        "shown": ExplainedImage.from_dict(payload["picture"], entry)
        if payload.get("picture")
        else None,
        "reading": None if reading is None else parse_readout(reading),
        "warnings": tuple((str(w["code"]), str(w["message"])) for w in payload.get("warnings", ())),
        "columns": None if reading is None else tuple(map(str, reading["labels"])),
    }


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Refuse fields whose lengths contradict each other, such as scores and tokens."""
    scores, tokens, image = fields["scores"], fields["tokens"], fields["shown"]
    if scores.shape != (len(tokens),) or scores.dtype.kind != "f":
        raise ValueError(f"{scores.shape} scores for {len(tokens)} tokens")
    measured = fields["measured"]
    if measured is not None and measured.shape != (len(fields["spans"]),):
        raise ValueError(f"{measured.shape} scores for {len(fields['spans'])} words")
    places = {place for word in fields["spans"] for place in word.tokens}
    if not places.union(fields["read"]) <= set(range(len(tokens))):
        raise ValueError("a word of tokens that are not there")
    if image is not None and image.grid[0] * image.grid[1] != len(tokens):
        raise ValueError(f"{image.grid} patches for {len(tokens)} tokens")
    columns, logits = fields["columns"], fields["prediction"].logits
    if columns is not None and len(columns) != len(logits):
        raise ValueError(f"{len(logits)} logits for {len(columns)} columns")


@cache  # a file has thousands of records of one kind
def _resolve_type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _build_record(kind: type[T], facts: Mapping[str, Any]) -> T:
    """Build a record from JSON data: types are checked, unknown fields of a later version dropped."""
    known = _resolve_type_hints(cast(Any, kind))
    for name in known.keys() & facts.keys():
        hint = known[name]
        allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if all(isinstance(option, type) for option in allowed) and not isinstance(
            facts[name], allowed
        ):
            raise TypeError(f"{name} is {facts[name]!r}")
    return kind(**{name: facts[name] for name in known if name in facts})


def _to_floats(facts: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in facts.items()}
