"""From whatever was given to encoded inputs that fit the model."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from whence.core.errors import BadEncoding, BadTokenizer, WhenceError
from whence.data import Encoded, encode, from_mapping, is_mapping
from whence.models import Loaded


def take(given: Any, loaded: Loaded, *, truncate: bool) -> tuple[list[Encoded], bool]:
    """Encode whatever was given; say whether it was a single input."""
    if is_mapping(given):
        rows = _encode(given, loaded, truncate)
        return rows, len(rows) == 1
    if isinstance(given, str) or _is_pair(given):
        return _encode(given, loaded, truncate), True
    if isinstance(given, Iterable) and not isinstance(given, bytes | tuple):
        items: list[Encoded] = []
        for number, one in enumerate(given):
            one = tuple(one) if isinstance(one, list) and _is_pair(tuple(one)) else one
            rows = _encode(one, loaded, truncate)
            if len(rows) != 1:
                raise BadEncoding(
                    f"Input {number} of the list is an encoded mapping of {len(rows)} rows; give one row each."
                )
            items += rows
        return items, False
    raise BadEncoding(
        f"Cannot explain {str(given)[:40]!r} ({type(given).__name__}): give a text, a pair (a, b) of texts, "
        "an encoded mapping, or a list of these."
    )


def takes_pairs(loaded: Loaded) -> bool:
    """Say whether two texts can be given: whether the tokenizer keeps them apart by a token of its own."""
    try:
        (item,) = _encode(("one text", "another"), loaded, True)
    except WhenceError:
        return False
    second = next((i for i, t in enumerate(item.tokens) if t.segment and not t.special), 0)
    return second > 0 and item.tokens[second - 1].special


def _encode(given: Any, loaded: Loaded, truncate: bool) -> list[Encoded]:
    if is_mapping(given):
        items = from_mapping(
            given,
            loaded.tokenizer,
            pad_ids=loaded.pad_ids,
            max_length=loaded.max_length,
            vocabulary=loaded.vocabulary,
        )
    else:
        item = encode(given, loaded.tokenizer, max_length=loaded.max_length, truncate=truncate)
        size = loaded.vocabulary
        if size is not None and max(item.ids) >= size:
            raise BadTokenizer(
                f"The tokenizer gives the id {max(item.ids)}, the model has {size} token embeddings. "
                "Give the tokenizer that belongs to the model."
            )
        items = [item]
    return [_accepted(item, loaded) for item in items]


def _accepted(item: Encoded, loaded: Loaded) -> Encoded:
    """Keep the features that the model's forward takes."""
    _check_features(item, loaded)
    unknown = [name for name in item.features if name not in loaded.accepts]
    if not unknown:
        return item
    if refused := [name for name in unknown if name not in {"token_type_ids", "attention_mask"}]:
        raise BadEncoding(
            f"{type(loaded.model).__name__} does not take {refused[0]!r}. Leave it out of the mapping."
        )
    return replace(item, features={k: v for k, v in item.features.items() if k not in unknown})


def _check_features(item: Encoded, loaded: Loaded) -> None:
    """Refuse what would make the model's own code fail deep inside."""
    config, anchors = loaded.model.config, loaded.anchors
    bounds = {
        "token_type_ids": getattr(config, "type_vocab_size", None),
        "position_ids": getattr(config, "max_position_embeddings", None),
    }
    for name, bound in bounds.items():
        values = item.features.get(name, ())
        if (
            values
            and isinstance(bound, int)
            and bound
            and not 0 <= min(values) <= max(values) < bound
        ):
            raise BadEncoding(
                f"{name!r} must lie from 0 to {bound - 1}. Got {min(values)} to {max(values)}."
            )
    if loaded.pairs and set(item.features.get("token_type_ids", ())) != {0, 1}:
        raise BadEncoding(
            f"{type(loaded.model).__name__} takes a pair of texts and got a single one. Give a pair (a, b), or an "
            "encoded mapping with token_type_ids: 0 for the text that is attended to, 1 for the query."
        )
    if loaded.singles and 1 in item.features.get("token_type_ids", ()):
        raise BadEncoding(
            f"{type(loaded.model).__name__} takes a single text and got a pair: it has no query to read a second "
            "text by. Give one text, or a model that was trained on pairs."
        )
    if anchors and not anchors.intersection(item.ids):
        raise BadEncoding(
            f"{type(loaded.model).__name__} needs its end-of-sequence token {sorted(anchors)} in every input. "
            "Encode with the model's tokenizer."
        )


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, str) for x in given)
