"""All that one offline page carries of some inputs: explanations, flows, heads and maps, as far as there is room."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from whence.core.errors import NotCapturable, TooLong, WhenceError
from whence.explainer.explanation import Explanation
from whence.explainer.inside.inside import PATCHES, Inside
from whence.explainer.inside.statistics import Statistic
from whence.explainer.kept.told import told
from whence.flow import NAMES, Name, Query
from whence.report import page as static_page
from whence.report.embed import embedded

TITLE = "whence: why did the model say that?"
STATISTICS: tuple[Statistic, ...] = ("entropy", "special", "gradient")
LARGEST = 25_000_000  # characters of data; a browser gets slow beyond
_EDGES: dict[Name, int] = {
    "attention": 2000
}  # of a trace back from the decision; 1000 for other weights
# These run layers again for each token, or walk every operation: of a long input that takes a minute.
_LONGEST: dict[Name, int] = {"value_zeroing": 64, "relevance": 64}
_WORD_EDGES, _WORD_TOKENS = 150, 48
_WORDS = Query(specials=False)
_MAPS = 200_000  # weights of all heads
_DROPPED = ("maps", "thumbnails", "words")  # what goes first where there is no room

Group = Sequence[Explanation]


def offline(groups: Sequence[Group], title: str = TITLE, flows: bool = True) -> str:
    """Return a page about some inputs, each with its explanations by one method or several."""
    data = picture(groups, flows)
    static = static_page([one["explanations"] for one in data["inputs"]], title)
    return embedded(static, data)


def picture(groups: Sequence[Group], flows: bool = True, largest: int = LARGEST) -> dict[str, Any]:
    """Collect what a page can show; where that is too large, maps go first, then thumbnails, then paths of words."""
    inputs = [_input(group, flows) for group in groups]
    data: dict[str, Any] = {"version": 1, "kind": "page", "inputs": inputs, "left_out": []}
    for tier in _DROPPED:
        if len(json.dumps(data)) <= largest:
            break
        for one in inputs:
            one[tier] = [] if tier == "words" else None
        data["left_out"].append(tier)
    return data


def _input(group: Group, flows: bool) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "flows": [],
        "words": [],
        "heads": [],
        "thumbnails": None,
        "maps": None,
        "refused": {},
    }
    first = group[0]
    if not flows:
        return {
            **empty,
            "explanations": told(group),
            "without": "Flows were left out of this file.",
        }
    if first.explainer is None:
        why = "The explanation came without its model, and how information flowed can only be seen in the model."
        return {**empty, "explanations": told(group), "without": why}
    try:
        inside = _inside(first)
        inside.attention()
    except WhenceError as error:
        return {**empty, "explanations": told(group), "without": str(error)}
    refused: dict[str, str] = {}
    flows_of = [_tried(name, refused, partial(_flows, inside, name)) for name in NAMES]
    heads = [_tried(name, refused, partial(_heads, inside, name)) for name in STATISTICS]
    return {
        "explanations": told(group, warnings=inside.warnings()),
        "flows": [flow for some in flows_of for flow in some],
        "words": _words(inside),
        "heads": [one for some in heads for one in some],
        "thumbnails": _packed(inside.tensors(["thumbnails"])["thumbnails"]),
        "maps": _maps(inside),
        "refused": refused,
        "without": None,
    }


def _inside(explanation: Explanation) -> Inside:
    """Look into the model as it was when it explained: the same tokens, the same target."""
    if explanation.picture is not None:
        raise NotCapturable(PATCHES)
    assert explanation.explainer is not None
    return explanation.explainer.inside(explanation)


def _tried(
    name: str, refused: dict[str, str], make: Callable[[], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return what a model has, or note why it has not."""
    try:
        return make()
    except WhenceError as error:
        refused[name] = str(error)
        return []


def _heads(inside: Inside, statistic: Statistic) -> list[dict[str, Any]]:
    return [inside.head_statistic(statistic)]


def _flows(inside: Inside, weight: Name) -> list[dict[str, Any]]:
    """Trace back from the decision: all edges, and where those are not all in it, the words' edges alone."""
    longest = _LONGEST.get(weight)
    if longest is not None and len(inside.tokens) > longest:
        raise TooLong(
            f"A file carries {weight} of inputs up to {longest} tokens, as it takes long; this one has "
            f"{len(inside.tokens)}. The app computes it: whence app --model {inside.loaded.name}."
        )
    most = _EDGES.get(weight, 1000)
    every = inside.flow(weight, most=most)
    if every["count"] <= most:
        return [_light(every, specials=True)]
    words = inside.flow(weight, query=_WORDS, most=most)
    return [_light(words, specials=False), _light(every, specials=True)]


def _words(inside: Inside) -> list[dict[str, Any]]:
    """Trace the paths from the decision to each word of a short input."""
    if len(inside.tokens) > _WORD_TOKENS:
        return []
    flows = (
        inside.flow("attention", direction="through", token=place, query=_WORDS, most=_WORD_EDGES)
        for place, token in enumerate(inside.tokens)
        if not token.special
    )
    return [_light(flow, specials=False) for flow in flows]


def _light(flow: dict[str, Any], *, specials: bool) -> dict[str, Any]:
    """Leave out the tokens, which the explanation has, and write numbers in seven figures, as float32 holds them."""
    kept = {name: value for name, value in flow.items() if name != "tokens"}
    kept["specials"] = specials
    edges = kept["edges"]
    kept["edges"] = {
        **edges,
        "flow": [_short(value) for value in edges["flow"]],
        "weight": [_short(value) for value in edges["weight"]],
    }
    for name in ("nodes", "residual"):
        kept[name] = [[_short(value) for value in row] for row in kept[name]]
    return kept


def _short(value: float) -> float:
    return float(f"{value:.7g}")


def _maps(inside: Inside) -> dict[str, Any] | None:
    """Pack all attention maps, if they are small; the root is stored, so small weights keep their figures."""
    maps = inside.attention()
    if maps.size > _MAPS:
        return None
    return _packed(np.round(np.sqrt(np.clip(maps, 0, 1)) * 65535).astype("<u2"))


def _packed(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "data": b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii"),
    }


"""Explanations of one input as a page tells them: the scores of all methods, and how far they agree."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from whence.data.reading import REST
from whence.explainer.explanation import Explanation
from whence.stats import kendall, top_k_overlap
from whence.view import merge

# So many of the strongest words are held against each other; of a short text half, as all would always agree.
_STRONGEST = 5


def told(
    explanations: Sequence[Explanation],
    failed: Mapping[str, str] | None = None,
    warnings: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Join explanations of one input; `failed` says by method why there is none, `warnings` what to know first."""
    payload = merge([explanation.to_shown() for explanation in explanations])
    own = [one for one in payload.get("warnings", ()) if one not in warnings]
    return {
        **payload,
        "agreement": agreement(payload["explanations"]),
        "failed": [{"method": name, "message": why} for name, why in (failed or {}).items()],
        "warnings": [*own, *warnings],
        "runner_up": _runner_up(explanations[0]),
        "entities": [],  # what a tagger found besides: who asks for everything says it
        # The output that stands for all that have no name, if there is one.
        "rest": REST if REST in payload["prediction"]["probabilities"] else None,
    }


def agreement(explanations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hold every two explanations against each other: the order of all words, and the strongest of them."""
    words = len(explanations[0]["word_scores"])
    if not words:
        return []
    k = max(1, min(_STRONGEST, words // 2))
    return [_pair(a, b, k, k / words) for a, b in combinations(explanations, 2)]


def _pair(a: dict[str, Any], b: dict[str, Any], k: int, chance: float) -> dict[str, Any]:
    one, two = np.array(a["word_scores"]), np.array(b["word_scores"])
    tau = float(kendall(one, two)[0])
    top = float(top_k_overlap(np.abs(one), np.abs(two), k)[0])
    return {
        "a": a["method"],
        "b": b["method"],
        "tau": None if np.isnan(tau) else tau,
        # Where all words are level the strongest are drawn by lot, which is what chance gives.
        "top": chance if np.isnan(top) else top,
        "k": k,
        "chance": chance,
    }


def _runner_up(explanation: Explanation) -> str | None:
    """Return the label that came second, if there are as many."""
    logits, labels = explanation.prediction.logits, list(explanation.model["labels"])
    shares = explanation.prediction.probabilities
    if shares and list(shares) != labels:
        # Such an input has outputs of its own; what is left over is none that could come second.
        named = [name for name in sorted(shares, key=lambda name: -shares[name]) if name != REST]
        return named[1] if len(named) > 1 else None
    if len(logits) < 2:
        return None
    return str(labels[sorted(range(len(logits)), key=lambda i: (-logits[i], i))[1]])
