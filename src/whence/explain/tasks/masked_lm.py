"""Masked language models: the word in the place of a mask."""

from collections.abc import Sequence
from dataclasses import replace
from operator import index
from typing import Any

from torch import Tensor

from whence.capture import TargetSpec
from whence.core.errors import BadEncoding, BadParameter, BadTokenizer, UnknownTarget
from whence.data import Encoded
from whence.data.reading import NAMED, REST, AtPlace
from whence.data.text.encode import tokenizing
from whence.explainer.aims import Aimed, Asked
from whence.explainer.aims.outputs import logits
from whence.models import Loaded


def mask(loaded: Loaded, items: list[Encoded], asked: Asked) -> Aimed:
    """Read the likeliest word, or the one that is asked about, at the mask."""
    identity = getattr(loaded.tokenizer, "mask_token_id", None)
    if identity is None:
        raise BadTokenizer(
            f"The tokenizer of {loaded.name!r} has no mask token, so there is no mask to fill. Give the tokenizer "
            "that belongs to the model: whence.load(model, tokenizer=...)."
        )
    places = [_place(item, asked.at, identity, loaded) for item in items]
    wanted = _wanted(asked.target, loaded)
    spec = TargetSpec(0, 1 if len(wanted) == 2 else None, asked.of)
    asking = [
        replace(item, reading=AtPlace(place)) for item, place in zip(items, places, strict=True)
    ]
    aimed = []
    for item, place, said in zip(items, places, logits(loaded, asking), strict=True):
        ids = _named(said, wanted, loaded)
        labels = (*_unique([shown(i, loaded) for i in ids], ids), REST)
        item = without_masks(item, identity)
        aimed.append(replace(item, reading=AtPlace(place, tuple(ids)), labels=labels))
    return Aimed(aimed, spec, forwards=1)


def without_masks(item: Encoded, identity: int) -> Encoded:
    """Make masks special: they are questions, not part of the text, and are not taken away to see what happens."""
    masks = {i for i, token in enumerate(item.tokens) if token.id == identity}
    tokens = tuple(
        replace(token, special=token.special or i in masks) for i, token in enumerate(item.tokens)
    )
    words = [
        replace(word, tokens=tuple(i for i in word.tokens if i not in masks)) for word in item.words
    ]
    return replace(item, tokens=tokens, words=tuple(word for word in words if word.tokens))


def shown(identity: int, loaded: Loaded) -> str:
    """Return a token of the vocabulary as a person writes it; a piece within a word keeps its mark."""
    assert loaded.tokenizer is not None
    piece = loaded.tokenizer.convert_ids_to_tokens(identity)
    if piece is None:  # a vocabulary may be wider than its tokenizer
        return f"token {identity}"
    text = str(loaded.tokenizer.decode([identity])).strip()
    return text if text and not piece.startswith("##") else str(piece)


def _place(item: Encoded, at: Any, identity: int, loaded: Loaded) -> int:
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


def _wanted(target: Any, loaded: Loaded) -> list[str | int]:
    """Return the words that are explained: one, or two to hold against each other; none if it is the likeliest."""
    if isinstance(target, tuple):
        if len(target) != 2:
            raise UnknownTarget(f"A contrast has two words. Got {len(target)}: {target!r}.")
        found = [_word(one, loaded) for one in target]
        if found[0] == found[1]:
            raise UnknownTarget(f"A contrast needs two different words. Got {target!r}.")
        return found
    if isinstance(target, str) and ":" in target.strip(":"):
        cut = target.index(":", 1)
        return _wanted((target[:cut], target[cut + 1 :]), loaded)
    return [_word("predicted" if target is None else target, loaded)]


def _word(target: Any, loaded: Loaded) -> str | int:
    """Return the id of a word, or the rank that is asked for."""
    assert loaded.tokenizer is not None
    if target in ("predicted", "runner-up"):
        return str(target)
    if not isinstance(target, str) or not target.strip():
        raise UnknownTarget(f"A word is asked about, or 'predicted', 'runner-up'. Got {target!r}.")
    known = loaded.tokenizer.get_vocab()
    if target.startswith("##") and target in known:
        return int(known[target])
    with tokenizing(target):
        spelled = [
            loaded.tokenizer.encode(text, add_special_tokens=False, verbose=False)
            for text in dict.fromkeys((" " + target.strip(), target))
        ]
    unknown = getattr(loaded.tokenizer, "unk_token_id", None)
    # SentencePiece tokenizers begin every text with a mark, byte-level ones a word by the space before it.
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


def _named(said: Tensor, wanted: Sequence[str | int], loaded: Loaded) -> list[int]:
    """Return the ids with a column of their own: what is asked about, then the likeliest."""
    order = said.argsort(descending=True, stable=True)[: NAMED + 2].tolist()
    ranks = {"predicted": 0, "runner-up": 1}
    asked = [order[ranks[one]] if isinstance(one, str) else one for one in wanted]
    if len(asked) == 2 and asked[0] == asked[1]:
        raise UnknownTarget(
            f"A contrast needs two different words, and both are {shown(asked[0], loaded)!r}. Give another."
        )
    named = list(dict.fromkeys([*asked, *order]))[:NAMED]
    return named[: max(len(said) - 1, 1)]  # something must be left over


def _unique(names: Sequence[str], ids: Sequence[int]) -> list[str]:
    """Tell words apart that are written alike, such as with and without a space before them."""
    return [
        name if names.count(name) == 1 and name != REST else f"{name} ({identity})"
        for name, identity in zip(names, ids, strict=True)
    ]
