"""The offline HTML page of explanations: its data (flows, heads, maps; size limit), the embedded app, and agreement of methods.

The page runs exactly one script, admitted by its SHA-256 hash in the content security policy.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np

from whence.core.errors import CannotServe, NotCapturable, TooLong, WhenceError
from whence.data.readout import REST_LABEL
from whence.explain.explanation import Explanation
from whence.explain.inside import PATCHES_NOTE, Inside, Statistic
from whence.explain.report import PAGE_TITLE, build_document
from whence.explain.word_scores import merge_payloads
from whence.flow.graph import EdgeQuery
from whence.flow.weights import EDGE_WEIGHT_NAMES, EdgeWeightName
from whence.stats.rank import kendall, top_k_overlap

STATISTICS: tuple[Statistic, ...] = ("entropy", "special", "gradient")
MAX_CHARACTERS = 25_000_000  # characters of data; a browser gets slow beyond
# Most edges of a flow; 1000 for other edge weights.
_EDGES: dict[EdgeWeightName, int] = {"attention": 2000}
# Most tokens for slow edge weights, which run layers once per token or walk every operation: else a minute.
_LONGEST: dict[EdgeWeightName, int] = {"value_zeroing": 64, "relevance": 64}
_WORD_EDGES, _WORD_TOKENS = 150, 48
_WORDS = EdgeQuery(specials=False)
_MAPS = 200_000  # most attention weights, of all heads together
_DROP_ORDER = ("maps", "thumbnails", "words")  # dropped in this order if the page is too large

Group = Sequence[Explanation]


def render_page(groups: Sequence[Group], title: str = PAGE_TITLE, flows: bool = True) -> str:
    """Return an HTML page on some inputs, each with explanations by one method or several."""
    data = build_page_data(groups, flows)
    static = build_document([entry["explanations"] for entry in data["inputs"]], title=title)
    return embed_app(static.to_html(), data)


def build_page_data(
    groups: Sequence[Group], flows: bool = True, largest: int = MAX_CHARACTERS
) -> dict[str, Any]:
    """Collect the data of a page; if too large, drop maps first, then thumbnails, then word paths."""
    inputs = [_build_input_data(group, flows) for group in groups]
    data: dict[str, Any] = {"version": 1, "kind": "page", "inputs": inputs, "left_out": []}
    for tier in _DROP_ORDER:
        if len(json.dumps(data)) <= largest:
            break
        for entry in inputs:
            entry[tier] = [] if tier == "words" else None
        data["left_out"].append(tier)
    return data


def _build_input_data(group: Group, flows: bool) -> dict[str, Any]:
    first, without, inside = group[0], "Flows were left out of this file.", None
    if flows and first.explainer is None:
        without = "The explanation came without its model, and how information flowed can only be seen in the model."
    elif flows and first.explainer is not None:
        try:
            if first.picture is not None:
                raise NotCapturable(PATCHES_NOTE)
            inside = first.explainer.inside(first)  # the same model, tokens and target
            inside.attention()
        except WhenceError as error:
            without, inside = str(error), None
    if inside is None:
        nothing: dict[str, Any] = {name: [] for name in ("flows", "words", "heads")}
        nothing |= {"thumbnails": None, "maps": None, "refused": {}}
        return {**nothing, "explanations": build_explanations_data(group), "without": without}
    data: dict[str, Any] = {"flows": [], "words": _trace_words(inside), "heads": []}
    refused: dict[str, str] = {}  # views that the model does not allow
    views: list[tuple[str, str, Callable[[], list[dict[str, Any]]]]] = [
        *(("flows", name, partial(_trace_flows, inside, name)) for name in EDGE_WEIGHT_NAMES),
        *(("heads", name, partial(_describe_heads, inside, name)) for name in STATISTICS),
    ]
    for kind, name, build in views:
        try:
            data[kind] += build()
        except WhenceError as error:
            refused[name] = str(error)
    return {
        "explanations": build_explanations_data(group, warnings=inside.warnings()),
        **data,
        "thumbnails": _pack_array(inside.tensors(["thumbnails"])["thumbnails"]),
        "maps": _pack_maps(inside),
        "refused": refused,
        "without": None,
    }


def _describe_heads(inside: Inside, statistic: Statistic) -> list[dict[str, Any]]:
    return [inside.head_statistic(statistic)]


def _trace_flows(inside: Inside, weight: EdgeWeightName) -> list[dict[str, Any]]:
    """Trace the flow back from the decision; if edges are cut off, also that of the words alone."""
    longest = _LONGEST.get(weight)
    if longest is not None and len(inside.tokens) > longest:
        raise TooLong(
            f"A file carries {weight} of inputs up to {longest} tokens, as it takes long; this one has "
            f"{len(inside.tokens)}. The app computes it: whence app --model {inside.loaded.name}."
        )
    most = _EDGES.get(weight, 1000)
    whole = inside.flow(weight, most=most)
    if whole["count"] <= most:
        return [_compact_flow(whole, specials=True)]
    words = inside.flow(weight, query=_WORDS, most=most)
    return [_compact_flow(words, specials=False), _compact_flow(whole, specials=True)]


def _trace_words(inside: Inside) -> list[dict[str, Any]]:
    """Trace the paths from the decision to each word of a short input."""
    if len(inside.tokens) > _WORD_TOKENS:
        return []
    flows = (
        inside.flow("attention", direction="through", token=place, query=_WORDS, most=_WORD_EDGES)
        for place, token in enumerate(inside.tokens)
        if not token.special
    )
    return [_compact_flow(flow, specials=False) for flow in flows]


def _compact_flow(flow: dict[str, Any], *, specials: bool) -> dict[str, Any]:
    """Return a flow without tokens, which the explanation has, and with seven figures, as in float32."""
    compact = {name: value for name, value in flow.items() if name != "tokens"}
    compact["specials"] = specials
    edges = compact["edges"]

    def round_row(values: Sequence[float]) -> list[float]:
        return [float(f"{value:.7g}") for value in values]

    rounded = {name: round_row(edges[name]) for name in ("flow", "weight")}
    compact["edges"] = {**edges, **rounded}
    for name in ("nodes", "residual"):
        compact[name] = [*map(round_row, compact[name])]
    return compact


def _pack_maps(inside: Inside) -> dict[str, Any] | None:
    """Pack all attention maps, if small; as square roots in 16 bits, so that small weights keep figures."""
    maps = inside.attention()
    if maps.size > _MAPS:
        return None
    return _pack_array(np.round(np.sqrt(np.clip(maps, 0, 1)) * 65535).astype("<u2"))


def _pack_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "data": b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii"),
    }


# Number of top words compared; half of a short text, as all words would always agree.
_TOP_WORDS = 5


def build_explanations_data(
    explanations: Sequence[Explanation],
    failed: Mapping[str, str] | None = None,
    warnings: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Merge explanations of one input, with `failed` methods, `warnings` and agreement."""
    payload = merge_payloads([explanation.to_display_dict() for explanation in explanations])
    own = [warning for warning in payload.get("warnings", ()) if warning not in warnings]
    return {
        **payload,
        "agreement": compute_agreement(payload["explanations"]),
        "failed": [{"method": name, "message": why} for name, why in (failed or {}).items()],
        "warnings": [*own, *warnings],
        "runner_up": _find_runner_up(explanations[0]),
        "entities": [],  # a tagger's other entities; filled in by the app
        # The name of the output for everything else, if there is one.
        "rest": REST_LABEL if REST_LABEL in payload["prediction"]["probabilities"] else None,
    }


def compute_agreement(explanations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare each two explanations: Kendall's tau over all words, and the overlap of the top words."""
    words = len(explanations[0]["word_scores"])
    if not words:
        return []
    k = max(1, min(_TOP_WORDS, words // 2))
    rows = []
    for a, b in combinations(explanations, 2):
        first, second = np.array(a["word_scores"]), np.array(b["word_scores"])
        tau = float(kendall(first, second)[0])
        top = float(top_k_overlap(np.abs(first), np.abs(second), k)[0])
        rows.append(
            {
                "a": a["method"],
                "b": b["method"],
                "tau": None if np.isnan(tau) else tau,
                # With all scores equal, the top words are arbitrary: the overlap is that of chance.
                "top": k / words if np.isnan(top) else top,
                "k": k,
                "chance": k / words,
            }
        )
    return rows


def _find_runner_up(explanation: Explanation) -> str | None:
    """Return the second most likely label, if there are two."""
    logits, labels = explanation.prediction.logits, list(explanation.model["labels"])
    shares = explanation.prediction.probabilities
    if shares and list(shares) != labels:
        # The outputs are those of a readout, and "anything else" is no runner-up.
        named = [
            name for name in sorted(shares, key=lambda name: -shares[name]) if name != REST_LABEL
        ]
        return named[1] if len(named) > 1 else None
    if len(logits) < 2:
        return None
    return str(labels[sorted(range(len(logits)), key=lambda i: (-logits[i], i))[1]])


_HEAD_END = "</style>\n</head>"


_STATIC_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


# Characters that could end a script element, open a comment or break a line in JavaScript.
_SCRIPT_ESCAPES = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embed_app(static: str, data: dict[str, Any]) -> str:
    """Embed the app's script and data into a static page, which remains readable without scripts."""
    script, style = read_front_end_file("embed.js"), read_front_end_file("embed.css")
    digest = b64encode(sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    tail = (
        f'<script type="application/json" id="whence-payload">{encode_script_json(data)}</script>\n'
        f'<script type="module">{script}</script>\n</body>'
    )
    added = f"</style>\n<style>{style}</style>\n</head>"
    for old, new in ((_STATIC_CSP, policy), (_HEAD_END, added), ("</body>", tail)):
        before, separator, after = static.partition(old)
        if not separator:
            raise ValueError(f"the static page has no {old!r}")
        static = before + new + after
    return static


def encode_script_json(data: dict[str, Any]) -> str:
    """Return data as JSON that cannot close the script element around it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in _SCRIPT_ESCAPES.items():
        text = text.replace(sign, code)
    return text


def read_front_end_file(name: str) -> str:
    """Return the text of a file of the built front end (app/static), read as package data."""
    path = files("whence").joinpath("app", "static", name)
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise CannotServe(
            f"{name} is missing from this installation. Install whence again; in a checkout: make bundle."
        ) from None
