"""How well a picture goes with texts, or a text with pictures: one side is explained, the other is held fast."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whence.capture import TargetSpec
from whence.core.errors import BadParameter, NoTokenizer, TooLong
from whence.data import Encoded
from whence.data.reading import Similarity
from whence.data.text.encode import tokenizing
from whence.data.vision.image import holds_picture, name_of
from whence.explainer.aims import Aimed, Asked
from whence.explainer.pictures import take_pictures
from whence.models import Loaded


def similarity(loaded: Loaded, items: list[Encoded], asked: Asked) -> Aimed:
    """Hold pictures against the `labels`, or texts against the `image` (or several of them)."""
    if items and items[0].picture is None:
        names, beside = _pictures(loaded, asked)
        reading = Similarity(beside, "logits_per_text")
    else:
        names, beside = _texts(loaded, asked)
        reading = Similarity(beside, "logits_per_image")
    spec = TargetSpec.parse(asked.target, names, asked.of)
    return Aimed([replace(item, reading=reading, labels=names) for item in items], spec)


def _texts(loaded: Loaded, asked: Asked) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    kind = type(loaded.model).__name__
    if asked.image is not None:
        raise BadParameter(
            "image=... is what a text is held against, and the input is a picture. Give labels=[...] instead."
        )
    given = asked.labels
    if isinstance(given, str) or not isinstance(given, Collection) or not given:
        raise BadParameter(
            f"{kind} holds a picture against texts: give them, labels=['a cat', 'a dog'], --labels 'a cat,a dog'. To "
            "explain a text, give the picture it is held against: image=..."
        )
    names = tuple(given)
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise BadParameter(f"labels must be texts that are not empty. Got {names!r}.")
    if len(set(names)) != len(names):
        raise BadParameter(f"Each of the labels must come once. Got {names!r}.")
    template = asked.template or "{}"
    if template.count("{}") != 1:
        raise BadParameter(f"template must have one {{}}, for the label. Got {template!r}.")
    if loaded.tokenizer is None:
        raise NoTokenizer(
            f"{kind} has no tokenizer, so that the labels cannot be read. Pass one: "
            "whence.load(model, tokenizer=...)."
        )
    texts = [template.replace("{}", name) for name in names]
    return names, _encoded(loaded, texts, asked.truncate)


def _encoded(loaded: Loaded, texts: list[str], truncate: bool) -> dict[str, Tensor]:
    tokenizer, longest = loaded.tokenizer, loaded.max_length
    assert tokenizer is not None
    with tokenizing(texts):
        lengths = [len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]]
    if longest is not None and max(lengths) > longest and not truncate:
        long = texts[lengths.index(max(lengths))]
        raise TooLong(
            f"The label {long[:40]!r} has {max(lengths)} tokens and {loaded.limit}. Shorten it, "
            "or let whence cut it: truncate=True, --truncate."
        )
    cut = {"truncation": True, "max_length": longest} if longest is not None else {}
    # What the tokenizer pads with is masked; without such a token only texts of one length go together.
    pad = tokenizer.pad_token is not None
    if not pad and len(set(lengths)) > 1:
        raise BadParameter(
            "The labels have different lengths, and the tokenizer has no padding token. Set tokenizer.pad_token."
        )
    found = tokenizer(texts, padding=pad, return_tensors="pt", **cut)
    kept = ("input_ids", "attention_mask")
    return {name: found[name].to(loaded.device) for name in kept if name in found}


def _pictures(loaded: Loaded, asked: Asked) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    if asked.labels is not None or asked.template is not None:
        raise BadParameter(
            "labels=... are what a picture is held against, and the input is a text. Give image=... instead."
        )
    if asked.image is None:
        raise BadParameter(
            f"{type(loaded.model).__name__} holds a text against a picture: give it, image=... To explain a picture, "
            "give the texts it is held against: labels=[...]."
        )
    several = isinstance(asked.image, Sequence) and not isinstance(asked.image, str | bytes)
    given: list[Any] = (
        list(asked.image) if several and not holds_picture(asked.image) else [asked.image]
    )
    seen = [item for one in given for item in take_pictures(one, loaded)[0]]
    pixels = [item.picture.pixels for item in seen if item.picture is not None]
    if len({one.shape for one in pixels}) != 1:
        raise BadParameter("A text is held against pictures of one size. Give these one by one.")
    names = [name_of(one) for one in given] if len(given) == len(seen) else [""] * len(seen)
    if len(set(names)) != len(names) or "" in names:
        names = [f"picture {number}" for number in range(1, len(seen) + 1)]
    stacked = torch.stack(pixels).to(device=loaded.device, dtype=loaded.dtype)
    return tuple(names), {"pixel_values": stacked}
