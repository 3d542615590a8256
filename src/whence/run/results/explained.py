"""A stored explanation as the JSON object of one (docs/reference/json.md), so that everything that shows one can."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from whence.core.errors import WhenceError
from whence.explainer.kept.scaling import scale_for
from whence.explainer.request import requests
from whence.methods import method
from whence.view import VERSION
from whence.view.conserved import CODE, unconserved
from whence.view.words import WordsBy, word_score

Record = Mapping[str, Any]

COLUMNS = (
    *(
        "row",
        "id",
        "label",
        "text",
        "pair",
        "method",
        "setting",
        "target",
        "predicted",
        "probability",
    ),
    *("tokens", "special", "starts", "ends", "segments", "ids", "words", "scores", "axioms"),
    *("forward", "backward", "dropped", "error", "why"),
)
_PATCH = re.compile(r"row (\d+), column (\d+)")


def explained(
    record: Record, model: Mapping[str, Any], setting: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one row of the table of explanations, which is no failure, as a payload.

    What a run does not keep is left out: logits, and probabilities of other classes. Of a picture there are the
    patches by name, and not its pixels.
    """
    tokens = [
        {
            "text": text,
            "start": start,
            "end": end,
            "segment": segment,
            "special": special,
            "id": number,
        }
        for text, start, end, segment, special, number in zip(
            *(record[name] for name in ("tokens", "starts", "ends", "segments", "special", "ids")),
            strict=True,
        )
    ]
    grid = _grid(tokens) if record["text"] is None else None
    words = [] if grid else _words(record, tokens)
    scores, params = list(record["scores"]), dict(setting.get("params", {}))
    said = record["probability"]
    facts = _facts(record["method"])
    by: WordsBy = facts.get("words", "sum")
    # A value has no probability: what measures one measures the value.
    of = (facts.get("of") if said is not None else None) or setting.get("of", "logit")
    axioms = {one["axiom"]: one["residual"] for one in record["axioms"] or ()}
    unkept = unconserved(record["method"], scores, axioms, None, of)
    word_scores = [word_score(scores, word["tokens"], by) for word in words]
    return {
        "version": VERSION,
        "model": dict(model),
        "input": {
            "text": record["text"],
            "pair": record["pair"],
            "dropped": record["dropped"] or 0,
        },
        "tokens": tokens,
        "words": words,
        "prediction": {
            "label": record["predicted"],
            "index": _place(record["predicted"], model),
            "probability": said,
            "probabilities": {} if said is None else {record["predicted"]: said},
            "logits": [],
        },
        "target": {
            "label": record["target"],
            "index": _place(record["target"], model),
            "against": None,
            "of": of,
        },
        "read": [],
        "explanations": [
            {
                "method": record["method"],
                "params": params,
                "of": of,
                "signed": _signed(record["method"], params, scores),
                "scores": scores,
                "word_scores": word_scores,
                "words_by": by,
                "scale": scale_for(
                    record["method"],
                    params,
                    word_scores or scores,
                    of=of,
                    is_value=said is None,
                    part="patch" if grid else "word",
                ),
                "axioms": axioms,
                "passes": {"forward": record["forward"], "backward": record["backward"]},
                "seconds": None,
                "dtype": "float64",
            }
        ],
        "provenance": {},
        **({"warnings": [{"code": CODE, "message": unkept}]} if unkept else {}),
        **({"picture": {"name": record["id"], "grid": grid}} if grid else {}),
    }


def _facts(name: str) -> Mapping[str, Any]:
    """Return what a method says about itself; nothing of one from a package that is not installed here.

    How words get their scores is among it: a run keeps those of tokens, and nothing that was measured on words.
    """
    return method.get(name).facts if name in method.names() else {}


def _words(record: Record, tokens: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put the tokens of a word together; one that is in none, and is no special one, is a word by itself."""
    members: dict[tuple[str, int], list[int]] = {}
    for place, (token, number) in enumerate(zip(tokens, record["words"], strict=True)):
        if not token["special"]:
            own = ("alone", place) if number is None or number < 0 else ("word", number)
            members.setdefault(own, []).append(place)
    return [
        _word(record, [(place, tokens[place]) for place in places]) for places in members.values()
    ]


def _word(record: Record, own: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    segment = own[0][1]["segment"]
    source = record["pair" if segment else "text"]
    starts = [token["start"] for _, token in own if token["start"] is not None]
    ends = [token["end"] for _, token in own if token["end"] is not None]
    start, end = min(starts, default=None), max(ends, default=None)
    known = source is not None and start is not None
    text = source[start:end] if known else "".join(token["text"] for _, token in own)
    return {
        "text": text,
        "start": start,
        "end": end,
        "segment": segment,
        "tokens": [place for place, _ in own],
    }


def _grid(tokens: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Return how many patches a picture has down and across, if tokens are patches."""
    places = [_PATCH.fullmatch(token["text"]) for token in tokens]
    found = [(int(one[1]), int(one[2])) for one in places if one]
    if not found or len(found) != len(tokens):
        return None
    rows, columns = (max(side) for side in zip(*found, strict=True))
    return [rows, columns] if rows * columns == len(tokens) else None


def _place(label: Any, model: Mapping[str, Any]) -> int:
    labels = list(model.get("labels") or ())
    return labels.index(label) if label in labels else 0


def _signed(method: str, params: Mapping[str, Any], scores: Sequence[float]) -> bool:
    """Say whether a method's scores have a sign; one that is not known here has it if its scores do."""
    try:
        (request,) = requests(method, dict(params), {"mask": 0, "pad": 0, "unk": 0})
    except WhenceError:
        return any(score < 0 for score in scores)
    return request.signed
