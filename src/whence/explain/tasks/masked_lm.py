"""Targets of masked language models: the likeliest or requested word at a mask, or a contrast of two words."""

from collections.abc import Sequence
from dataclasses import replace
from operator import index
from typing import Any

from torch import Tensor

from whence.core.errors import BadEncoding, BadParameter, BadTokenizer, UnknownTarget
from whence.data.readout import REST_LABEL, TOP_TOKENS, TokenReadout
from whence.data.tokens import EncodedInput, wrap_tokenizer_errors
from whence.explain.tasks import TargetedInputs, TargetRequest, list_targets, read_logits
from whence.models.model import LoadedModel
from whence.tracing.target import TargetSpec


def resolve_mask(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Resolve the target of a masked language model: the likeliest or the requested word at the mask."""
    identity = getattr(loaded.tokenizer, "mask_token_id", None)
    if identity is None:
        raise BadTokenizer(
            f"The tokenizer of {loaded.name!r} has no mask token, so there is no mask to fill. Give the tokenizer "
            "that belongs to the model: whence.load(model, tokenizer=...)."
        )
    places = [_find_mask_position(item, request.at, identity, loaded) for item in items]
    words = _parse_target(request.target, loaded)
    spec = TargetSpec(0, 1 if len(words) == 2 else None, request.of)
    probes = [
        replace(item, reading=TokenReadout(place))
        for item, place in zip(items, places, strict=True)
    ]
    targeted = []
    for item, place, logits in zip(items, places, read_logits(loaded, probes), strict=True):
        ids = _select_columns(logits, words, loaded)
        names = [format_token(i, loaded) for i in ids]
        labels = [  # alike, as with and without a leading space, they get their ids
            name if names.count(name) == 1 and name != REST_LABEL else f"{name} ({i})"
            for name, i in zip(names, ids, strict=True)
        ]
        reading = TokenReadout(place, tuple(ids))
        item = mark_masks_special(item, identity)
        targeted.append(replace(item, reading=reading, labels=(*labels, REST_LABEL)))
    return TargetedInputs(targeted, spec, forwards=1)


def mark_masks_special(item: EncodedInput, identity: int) -> EncodedInput:
    """Mark mask tokens as special: they are the question, and must not be removed."""
    masks = {i for i, token in enumerate(item.tokens) if token.id == identity}
    tokens = tuple(
        replace(token, special=token.special or i in masks) for i, token in enumerate(item.tokens)
    )
    words = [
        replace(word, tokens=tuple(i for i in word.tokens if i not in masks)) for word in item.words
    ]
    return replace(item, tokens=tokens, words=tuple(word for word in words if word.tokens))


def format_token(identity: int, loaded: LoadedModel) -> str:
    """Return a vocabulary token as readable text; a piece within a word keeps its "##"."""
    assert loaded.tokenizer is not None
    piece = loaded.tokenizer.convert_ids_to_tokens(identity)
    if piece is None:  # a model may have more embeddings than its tokenizer has tokens
        return f"token {identity}"
    text = str(loaded.tokenizer.decode([identity])).strip()
    return text if text and not piece.startswith("##") else str(piece)


def _find_mask_position(item: EncodedInput, at: Any, identity: int, loaded: LoadedModel) -> int:
    places = [i for i, own in enumerate(item.ids) if own == identity]
    token = getattr(loaded.tokenizer, "mask_token", None)
    dropped = item.source.dropped
    cut = f" {dropped} tokens at its end did not fit and were cut off." if dropped else ""
    if not places:
        raise BadEncoding(
            f"There is no mask in the text: write {token} where {loaded.name!r} is to fill in a word.{cut}"
        )
    if at is None and len(places) > 1:
        raise BadParameter(
            f"The text has {len(places)} masks. Say which one is explained: at=0 to at={len(places) - 1}."
        )
    try:
        number = 0 if at is None else int(at) if isinstance(at, str) else index(at)
    except (TypeError, ValueError):
        number = -1
    if isinstance(at, bool) or not 0 <= number < len(places):
        raise BadParameter(
            f"at says which mask, from 0 to {len(places) - 1} in this text. Got {at!r}.{cut}"
        )
    return places[number]


def _parse_target(target: Any, loaded: LoadedModel) -> list[str | int]:
    """Return the requested words or ranks: one, or the two of a contrast."""
    if isinstance(target, str) and ":" in target.strip(":"):
        cut = target.index(":", 1)
        target = (target[:cut], target[cut + 1 :])
    words = [_resolve_word(word, loaded) for word in list_targets(target, "words")]
    if len(set(words)) < len(words):
        raise UnknownTarget(f"A contrast needs two different words. Got {target!r}.")
    return words


def _resolve_word(target: Any, loaded: LoadedModel) -> str | int:
    """Return the id of a word, or the requested rank ("predicted", "runner-up")."""
    assert loaded.tokenizer is not None
    if target in ("predicted", "runner-up"):
        return str(target)
    if not isinstance(target, str) or not target.strip():
        raise UnknownTarget(f"A word is asked about, or 'predicted', 'runner-up'. Got {target!r}.")
    known = loaded.tokenizer.get_vocab()
    if target.startswith("##") and target in known:
        return int(known[target])
    with wrap_tokenizer_errors(target):
        spelled = [
            loaded.tokenizer.encode(text, add_special_tokens=False, verbose=False)
            for text in dict.fromkeys((" " + target.strip(), target))
        ]
    unknown = getattr(loaded.tokenizer, "unk_token_id", None)
    # SentencePiece marks the start of every text; byte-level tokenizers mark a word by the space before it.
    for ids in spelled:
        if len(ids) == 1 and ids[0] != unknown:
            return int(ids[0])
    pieces = loaded.tokenizer.convert_ids_to_tokens(min(spelled, key=len))
    raise UnknownTarget(
        f"{target!r} is not one token of this model: it would be {len(pieces)}, {', '.join(pieces)}, and one mask "
        "stands for one. Ask about another word."
        if len(pieces) > 1
        else f"The tokenizer does not know {target!r}. Ask about another word."
    )


def _select_columns(logits: Tensor, words: Sequence[str | int], loaded: LoadedModel) -> list[int]:
    """Return the token ids with a column of their own: the requested ones, then the likeliest."""
    order = logits.argsort(descending=True, stable=True)[: TOP_TOKENS + 2].tolist()
    ranks = {"predicted": 0, "runner-up": 1}
    ids = [order[ranks[word]] if isinstance(word, str) else word for word in words]
    if len(ids) == 2 and ids[0] == ids[1]:
        raise UnknownTarget(
            f"A contrast needs two different words, and both are {format_token(ids[0], loaded)!r}. Give another."
        )
    named = list(dict.fromkeys([*ids, *order]))[:TOP_TOKENS]
    return named[: max(len(logits) - 1, 1)]  # at least one token is left for "anything else"
