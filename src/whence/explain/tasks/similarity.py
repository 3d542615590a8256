"""Targets of image-text models: similarity of an image to labels, or of a text to images."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whence.core.errors import BadParameter, NoTokenizer, TooLong
from whence.data.images import can_read_image, find_image_name
from whence.data.readout import SimilarityReadout
from whence.data.tokens import EncodedInput, wrap_tokenizer_errors
from whence.explain.inputs import encode_images
from whence.explain.tasks import TargetedInputs, TargetRequest
from whence.models.model import LoadedModel
from whence.tracing.target import TargetSpec


def resolve_similarity(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Resolve the target of an image-text model: images against `labels`, or texts against `image`."""
    if items and items[0].picture is None:
        names, beside = _encode_reference_images(loaded, request)
        reading = SimilarityReadout(beside, "logits_per_text")
    else:
        names, beside = _encode_labels(loaded, request)
        reading = SimilarityReadout(beside, "logits_per_image")
    spec = TargetSpec.parse(request.target, names, request.of)
    return TargetedInputs([replace(item, reading=reading, labels=names) for item in items], spec)


def _encode_labels(
    loaded: LoadedModel, request: TargetRequest
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    kind = type(loaded.model).__name__
    if request.image is not None:
        raise BadParameter(
            "image=... is what a text is held against, and the input is a picture. Give labels=[...] instead."
        )
    labels = request.labels
    if isinstance(labels, str) or not isinstance(labels, Collection) or not labels:
        raise BadParameter(
            f"{kind} holds a picture against texts: give them, labels=['a cat', 'a dog'], --labels 'a cat,a dog'. To "
            "explain a text, give the picture it is held against: image=..."
        )
    names = tuple(labels)
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise BadParameter(f"labels must be texts that are not empty. Got {names!r}.")
    if len(set(names)) != len(names):
        raise BadParameter(f"Each of the labels must come once. Got {names!r}.")
    template = request.template or "{}"
    if template.count("{}") != 1:
        raise BadParameter(f"template must have one {{}}, for the label. Got {template!r}.")
    if loaded.tokenizer is None:
        raise NoTokenizer(
            f"{kind} has no tokenizer, so that the labels cannot be read. Pass one: "
            "whence.load(model, tokenizer=...)."
        )
    texts = [template.replace("{}", name) for name in names]
    return names, _tokenize_texts(loaded, texts, request.truncate)


def _tokenize_texts(loaded: LoadedModel, texts: list[str], truncate: bool) -> dict[str, Tensor]:
    tokenizer, longest = loaded.tokenizer, loaded.max_length
    assert tokenizer is not None
    with wrap_tokenizer_errors(texts):
        lengths = [len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]]
    if longest is not None and max(lengths) > longest and not truncate:
        long = texts[lengths.index(max(lengths))]
        raise TooLong(
            f"The label {long[:40]!r} has {max(lengths)} tokens and {loaded.length_limit}. Shorten it, "
            "or let whence cut it: truncate=True, --truncate."
        )
    cut = {"truncation": True, "max_length": longest} if longest is not None else {}
    # Padding is masked; without a padding token only texts of the same length share a batch.
    pad = tokenizer.pad_token is not None
    if not pad and len(set(lengths)) > 1:
        raise BadParameter(
            "The labels have different lengths, and the tokenizer has no padding token. Set tokenizer.pad_token."
        )
    encoding = tokenizer(texts, padding=pad, return_tensors="pt", **cut)
    features = ("input_ids", "attention_mask")
    return {name: encoding[name].to(loaded.device) for name in features if name in encoding}


def _encode_reference_images(
    loaded: LoadedModel, request: TargetRequest
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    if request.labels is not None or request.template is not None:
        raise BadParameter(
            "labels=... are what a picture is held against, and the input is a text. Give image=... instead."
        )
    if request.image is None:
        raise BadParameter(
            f"{type(loaded.model).__name__} holds a text against a picture: give it, image=... To explain a picture, "
            "give the texts it is held against: labels=[...]."
        )
    several = isinstance(request.image, Sequence) and not isinstance(request.image, str | bytes)
    images: list[Any] = (
        list(request.image) if several and not can_read_image(request.image) else [request.image]
    )
    items = [item for image in images for item in encode_images(image, loaded)[0]]
    pixels = [item.picture.pixels for item in items if item.picture is not None]
    if len({array.shape for array in pixels}) != 1:
        raise BadParameter("A text is held against pictures of one size. Give these one by one.")
    names = [find_image_name(i) for i in images] if len(images) == len(items) else [""] * len(items)
    if len(set(names)) != len(names) or "" in names:
        names = [f"picture {number}" for number in range(1, len(items) + 1)]
    stacked = torch.stack(pixels).to(device=loaded.device, dtype=loaded.dtype)
    return tuple(names), {"pixel_values": stacked}
