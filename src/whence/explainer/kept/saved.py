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
