"""The rows of a store, made of what a worker found. What each column means is said in docs/reference/store.md."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from whence.capture.memory.fitting import lacks_memory
from whence.core.errors import OutOfMemory, WhenceError
from whence.data import Encoded
from whence.data.removal import players
from whence.evaluation.tested import Tested
from whence.explainer import Explanation
from whence.explainer.work import unnamed
from whence.run.task import Identity, Item, Record, Task

_LONGEST = 300  # characters of somebody else's error
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_NOTHING: Record = dict.fromkeys(
    (
        *("target", "predicted", "probability", "tokens", "special", "starts", "ends", "segments"),
        *("ids", "words", "scores", "axioms", "forward", "backward", "dropped"),
    )
)


@dataclass(frozen=True)
class Failure:
    """Why there is no result: in the same words whenever and wherever it happens."""

    code: str  # of an error of ours, or the class of somebody else's
    why: str
    refused: bool = False  # the input could not be taken, so that no method was tried

    @classmethod
    def of(cls, error: BaseException, *, refused: bool = False) -> "Failure":
        """Say what went wrong."""
        if lacks_memory(error):
            # How much was free is true of one moment only.
            own = error if isinstance(error, OutOfMemory) else OutOfMemory("The memory ran out.")
            return cls(own.code, f"{str(own).partition('. ')[0].rstrip('.')}.", refused)
        if isinstance(error, WhenceError):
            own_words = unnamed(error)
            return cls(own_words.code, _steady(str(own_words)), refused)
        said = next(iter(str(error).strip().splitlines()), "")[:_LONGEST]
        return cls(type(error).__name__, _steady(f"The model failed: {said or 'no reason given'}"))


def _steady(said: str) -> str:
    """Return what was said without addresses in memory, which are others each time."""
    return _ADDRESS.sub("0x...", said)


def explained(
    identity: Identity,
    item: Item,
    method: str,
    found: Explanation | Failure,
    read: Record,
) -> Record:
    """Return the row of an explanation, or of why there is none; `read` is what `tokens` says of it."""
    setting, texts = identity.explained[method], item.example.texts
    failed = found if isinstance(found, Failure) else None
    return {
        "table": "explanations",
        "key": identity.key(setting, item),
        "setting": setting,
        "row": item.row,
        "example": item.digest,
        "id": item.id,
        "label": item.example.label,
        "text": texts[0] if texts else None,
        "pair": texts[1] if len(texts) > 1 else None,
        "method": method,
        **(_NOTHING if isinstance(found, Failure) else _explanation(found, read)),
        "refused": failed is not None and failed.refused,
        "error": failed and failed.code,
        "why": failed and failed.why,
    }


def _explanation(found: Explanation, read: Record) -> Record:
    return {
        "target": str(found.target),
        "predicted": found.prediction.label,
        "probability": found.prediction.probability,
        **read,
        "scores": found.scores.astype(float).tolist(),
        "axioms": [{"axiom": name, "residual": value} for name, value in found.axioms.items()],
        "forward": found.passes.forward,
        "backward": found.passes.backward,
        "dropped": found.source.dropped,
    }


def tokens(item: Encoded, anchors: Collection[int]) -> Record:
    """Return what the row of every explanation of an input says alike: what its tokens are.

    `anchors` are the ids that the model cannot do without (see whence.models.Loaded).
    """
    every = item.tokens
    return {
        "tokens": [token.text for token in every],
        "special": [token.special for token in every],
        "starts": [None if token.special else token.start for token in every],
        "ends": [None if token.special else token.end for token in every],
        "segments": [token.segment for token in every],
        "ids": kept_key(item),
        "words": _words(item, anchors),
    }


def kept_key(item: Encoded) -> list[int]:
    """Return what random draws are keyed by, in numbers of 64 bits with a sign."""
    return [number - (1 << 64) if number >= 1 << 63 else number for number in item.key]


def _words(item: Encoded, anchors: Collection[int]) -> list[int | None]:
    """Return the number of each token's word, -1 in none; None for a token that is never removed."""
    free = set(players(item, anchors))
    found: list[int | None] = [-1 if place in free else None for place in range(len(item))]
    for number, word in enumerate(item.words):
        for place in word.tokens:
            if place in free:
                found[place] = number
    return found


def tested(
    identity: Identity, item: Item, method: str, metric: str, found: Tested | Failure
) -> Record:
    """Return the row of a test, or of why there is none."""
    setting = identity.tested[method][metric]
    record: Record = {
        "table": "metrics",
        "key": identity.key(setting, item),
        "setting": setting,
        "row": item.row,
        "example": item.digest,
        "method": method,
        "metric": metric,
    }
    if isinstance(found, Failure):
        nothing = dict.fromkeys(("value", "null", "part_names", "parts", "null_parts"))
        return {**record, **nothing, "error": found.code, "why": found.why}
    parts, draws = found.parts, found.null_parts
    return {
        **record,
        "value": found.value,
        "null": found.null,
        "part_names": list(found.part_names) or None,
        "parts": None if parts is None else list(parts),
        "null_parts": None if draws is None else [one for draw in draws for one in draw],
        "error": found.error,
        "why": _why(found),
    }


def _why(found: Tested) -> str | None:
    if found.why is None:
        return None
    if found.error == OutOfMemory.code:
        return Failure.of(OutOfMemory(found.why)).why
    return _steady(found.why)


def failures(identity: Identity, task: Task, code: str, why: str) -> list[Record]:
    """Return the rows of a task of which nothing could be done, and why."""
    found: list[Record] = []
    failure = Failure(code, why)
    for item in task.items:
        for name in task.methods:
            found.append(explained(identity, item, name, failure, {}))
            found += [tested(identity, item, name, one, failure) for one in identity.tested[name]]
    return found
