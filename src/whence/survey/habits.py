"""What every head attends to, over a data set: by kind of place, how widely, and which tokens."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import NotFinite
from whence.data.sets.examples import read
from whence.explainer import Explainer
from whence.explainer.inside.inside import Inside
from whence.explainer.work import Progress
from whence.flow import KINDS, entropy, open_keys
from whence.flow import habits as sorted_by_kind
from whence.stats import Interval
from whence.stats.together import bootstraps
from whence.survey.intake import Intake, places, require_words

Array = NDArray[np.float64]

_TOKENS = 5  # of a head
_PLURAL = {
    "special": "special tokens",
    "itself": "the token itself",
    "previous": "the token before",
    "next": "the token after",
    "same word": "the same word",
    "punctuation": "punctuation",
    "other": "other tokens",
}


def habits(
    explainer: Explainer,
    examples: Any,
    *,
    limit: int | None = 100,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Look at the attention of every head on a sample of a data set, and say what it usually goes to.

    A share is the mean over the texts of a head's attention to such places, in the mean over its rows. Entropy is
    that of the rows, as a share of the largest possible. The tokens are those that get most, wherever they stand.
    """
    require_words(explainer)
    given = read(examples)
    intake = Intake(explainer, given.examples, places(given, limit, drawn=True), progress)
    seen: list[tuple[int, Array]] = []  # a text's number; (figures, layers, heads)
    even: list[Array] = []  # (kinds, layers)
    received: dict[str, Array] = defaultdict(lambda: np.zeros(1))
    for group in intake.groups():
        for place, (number, text) in enumerate(zip(group.numbers, group.given, strict=True)):
            try:
                inside = explainer.inside(text, truncate=True)
                figures, evenly = _figures(inside, received)
            except NotFinite as error:
                intake.refuse(number, error.code, str(error))
                continue
            seen.append((number, figures))
            even.append(evenly)
            group.progress(place + 1, len(group.numbers))
    return {
        "kind": "habits",
        "model": explainer.loaded.name,
        "data": given.name,
        "used": len(seen),
        "left_out": [*intake.drawn(), *intake.left_out()],
        "heads": _heads(seen, even, received) if seen else [],
        "kinds": dict(KINDS),
    }


def _figures(inside: Inside, received: dict[str, Array]) -> tuple[Array, Array]:
    """Return one text's shares by kind, then its entropy, (figures, layers, heads), and what even attention gives.

    The latter is (kinds, layers): layers may differ in what a row can attend to.
    """
    maps = inside.attention()
    found = sorted_by_kind(maps, inside.tokens, inside.words)
    for token, share in zip(inside.tokens, np.moveaxis(found.received, -1, 0), strict=True):
        shown = token.text if token.special else token.text.lower()
        received[shown] = received[shown] + share
    evenly = sorted_by_kind(_flat(maps), inside.tokens, inside.words).shares
    return (
        np.stack([*(found.shares[kind] for kind in KINDS), entropy(maps)]),
        np.stack([evenly[kind][:, 0] for kind in KINDS]),
    )


def _flat(maps: NDArray[np.floating[Any]]) -> Array:
    """Return attention spread evenly over what a row may attend to, (layers, 1, tokens, tokens).

    A row of a causal model sees what stands before it alone: that it attends there is no preference.
    """
    seen = np.stack([open_keys(layer) for layer in maps]).astype(np.float64)
    flat: Array = (seen / np.maximum(seen.sum(axis=-1, keepdims=True), 1))[:, None]
    return flat


def _heads(
    seen: Sequence[tuple[int, Array]], even: Sequence[Array], received: Mapping[str, Array]
) -> list[dict[str, Any]]:
    # The order of the batches must not reach the draws.
    order = sorted(range(len(seen)), key=lambda i: seen[i][0])
    columns = np.stack([seen[i][1] for i in order])
    n, figures, layers, heads = columns.shape
    intervals = np.array(bootstraps(columns.reshape(n, -1), ("habits",)), dtype=object)
    by_head = intervals.reshape(figures, layers, heads)
    evenly = np.mean(even, axis=0)
    return [
        _habit(
            layer,
            head,
            by_head[:, layer, head].tolist(),
            _favourites(received, layer, head, n),
            dict(zip(KINDS, evenly[:, layer].tolist(), strict=True)),
        )
        for layer in range(layers)
        for head in range(heads)
    ]


def _habit(
    layer: int,
    head: int,
    found: Sequence[Interval],
    tokens: list[tuple[str, float]],
    even: Mapping[str, float],
) -> dict[str, Any]:
    shares = dict(zip(KINDS, found, strict=False))
    # What sets it apart is not where most goes, but where more goes than evenly spread attention would give.
    most = max(shares, key=lambda kind: shares[kind].mean - even[kind])
    return {
        "layer": layer,
        "head": head,
        "shares": {kind: _written(one) for kind, one in shares.items()},
        "entropy": _written(found[-1]),
        "tokens": tokens,
        "words": f"gives {shares[most].mean:.0%} of its attention to {_PLURAL[most]}; spread evenly it would be "
        f"{even[most]:.0%}",
    }


def _favourites(
    received: Mapping[str, Array], layer: int, head: int, n: int
) -> list[tuple[str, float]]:
    means = {token: float(total[layer, head]) / n for token, total in received.items()}
    return sorted(means.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOKENS]


def _written(one: Interval) -> dict[str, Any]:
    return {"mean": one.mean, "low": one.low, "high": one.high, "n": one.n}
