"""What explaining returns: scores, what they are scores of, and where they come from."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from operator import index
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

import numpy as np

from whence.core.errors import CannotRead
from whence.core.io import read_json, write_text, written
from whence.core.types import Passes, Prediction, Source, Target, Token, Word
from whence.data import Encoded
from whence.data.removal import Removal
from whence.report import fragment, plain
from whence.trust import Trust
from whence.view import VERSION

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.explainer.explainer import Explainer


T = TypeVar("T")


def _made(kind: type[T], facts: Mapping[str, Any]) -> T:
    """Make a record of what a file says: every type checked, unknown fields of a later version left out."""
    known = get_type_hints(kind)
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


@dataclass(frozen=True, slots=True)
class WordScore:
    """A word with the sum of its tokens' scores."""

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
    # What it takes to test the explanation; an explanation from a file comes without.
    explainer: "Explainer | None" = field(default=None, repr=False)
    item: Encoded | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "explainer": None,
        }  # a copy, or a pickle, does not take the model along

    @property
    def word_scores(self) -> np.ndarray[Any, Any]:
        """One number per word: the sum of its tokens' scores."""
        sums = [self.scores[list(word.tokens)].sum() for word in self.spans]
        return np.array(sums, dtype=self.scores.dtype)

    def words(self) -> list[WordScore]:
        """The words in the order of the text, with their scores."""
        return [
            WordScore(w.text, w.start, w.end, w.segment, w.tokens, float(score))
            for w, score in zip(self.spans, self.word_scores, strict=True)
        ]

    def top(self, k: int = 5) -> list[WordScore]:
        """The k words that count most, by the size of their scores."""
        return sorted(self.words(), key=lambda word: -abs(word.score))[:k]

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

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object, with this one explanation in it."""
        prediction = asdict(self.prediction)
        prediction["logits"] = list(prediction["logits"])
        return {
            "version": VERSION,
            "model": dict(self.model),
            "input": asdict(self.source),
            "tokens": [asdict(token) for token in self.tokens],
            "words": [{**asdict(word), "tokens": list(word.tokens)} for word in self.spans],
            "prediction": prediction,
            "target": asdict(self.target),
            "explanations": [
                {
                    "method": self.method,
                    "params": dict(self.params),
                    "signed": self.signed,
                    "scores": self.scores.tolist(),
                    "word_scores": self.word_scores.tolist(),
                    "axioms": dict(self.axioms),
                    "passes": asdict(self.passes),
                    "seconds": self.seconds,
                    "dtype": str(self.scores.dtype),
                }
            ],
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Explanation":
        """Build an explanation from what `to_dict` returned."""
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {VERSION}."
            )
        try:
            (own,) = payload["explanations"]
            against = payload["target"].get("against")
            found = cls(
                scores=np.array(own["scores"], dtype=own["dtype"]),
                tokens=tuple(_made(Token, token) for token in payload["tokens"]),
                spans=tuple(
                    _made(Word, {**word, "tokens": tuple(map(index, word["tokens"]))})
                    for word in payload["words"]
                ),
                source=_made(Source, payload["input"]),
                prediction=_made(
                    Prediction,
                    {
                        **payload["prediction"],
                        "logits": tuple(map(float, payload["prediction"]["logits"])),
                        "probabilities": _numbers(payload["prediction"]["probabilities"]),
                    },
                ),
                target=_made(
                    Target,
                    {
                        **payload["target"],
                        "against": None if against is None else _made(Target, against),
                    },
                ),
                method=str(own["method"]),
                params=dict(own["params"]),
                signed=bool(own["signed"]),
                axioms=_numbers(own["axioms"]),
                passes=_made(Passes, own["passes"]),
                seconds=float(own["seconds"]),
                model=dict(payload["model"]),
                provenance=dict(payload["provenance"]),
            )
            places = {place for word in found.spans for place in word.tokens}
            if found.scores.shape != (len(found.tokens),) or found.scores.dtype.kind != "f":
                raise ValueError(f"{found.scores.shape} scores for {len(found.tokens)} tokens")
            if not places <= set(range(len(found.tokens))):
                raise ValueError("a word of tokens that are not there")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CannotRead(
                f"This is not a saved explanation: {type(error).__name__} {error}. Give a file that save() wrote."
            ) from None
        return found

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
        from whence.explainer.page import offline

        return written(offline([[self]], flows=flows), path)

    def __str__(self) -> str:
        return plain(self.to_dict())

    def __repr__(self) -> str:
        best = ", ".join(f"{word.text} {word.score:+.3g}" for word in self.top(3))
        return f"<Explanation {self.method} of {self.target}: {best}>"

    def __rich__(self) -> "RenderableType":
        from whence.report.terminal import render

        return render(self.to_dict())

    def _repr_html_(self) -> str:
        return fragment(self.to_dict())
