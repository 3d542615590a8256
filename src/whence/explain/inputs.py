"""Encoding of raw inputs (texts, pairs, chats, images, mappings) for a model, with checks and warnings."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from whence.core.errors import (
    BadEncoding,
    BadPicture,
    BadTokenizer,
    NoHead,
    WhenceError,
    shorten_quote,
)
from whence.data.example import StoredImage
from whence.data.image_encoding import encode_image
from whence.data.images import can_read_image, is_image
from whence.data.prompts import (
    count_unknown,
    format_chat,
    is_chat,
    strip_closing_tokens,
    truncate_prompt,
)
from whence.data.readers import is_data_frame, list_frame_columns
from whence.data.tokens import (
    BBOX_FEATURE,
    EncodedInput,
    Truncation,
    encode,
    from_mapping,
    is_mapping,
    tokenize_batch,
)
from whence.models.model import LoadedModel
from whence.tracing.patch_layout import find_patch_layout


class InputWarning(UserWarning):
    """Warning about an input that makes its explanation doubtful."""


_TOKENIZE_BATCH = 64  # texts that are tokenized at once

RefusalCallback = Callable[[int, WhenceError], None]  # the number of a refused input, and the error
# Called for a failed input: its number, the method if one failed, and the error.
InputFailureCallback = Callable[[int, str | None, WhenceError], None]


@dataclass(frozen=True)
class EncodedInputs:
    """The encoded inputs of a data set with their numbers, and the number of inputs given."""

    numbers: list[int]
    items: list[EncodedInput]
    total: int

    def by_number(self) -> dict[int, EncodedInput]:
        """Return the inputs by their numbers."""
        return dict(zip(self.numbers, self.items, strict=True))


def encode_dataset(
    texts: Any, loaded: LoadedModel, truncate: bool, failed: InputFailureCallback | None
) -> EncodedInputs:
    """Encode a data set; inputs that cannot be encoded are reported to `failed`."""
    texts = texts if isinstance(texts, Sized) else list(texts)
    if failed is None:
        items, _ = encode_inputs(texts, loaded, truncate=truncate)
        return EncodedInputs(list(range(len(items))), items, len(items))

    def refuse(number: int, error: WhenceError) -> None:
        failed(number, None, error)

    if loaded.takes_images:
        pairs = _encode_each_image(texts, loaded, refuse)
    else:
        pairs = encode_each(texts, loaded, truncate=truncate, refuse=refuse)
    numbered = dict(pairs)
    return EncodedInputs(list(numbered), list(numbered.values()), len(texts))


def _encode_each_image(
    images: Iterable[Any], loaded: LoadedModel, refuse: RefusalCallback
) -> Iterator[tuple[int, EncodedInput]]:
    for number, image in enumerate(images):
        try:
            (item,), _ = encode_inputs([image], loaded, truncate=False)
        except WhenceError as error:
            refuse(number, error)
        else:
            yield number, item


def encode_inputs(
    inputs: Any, loaded: LoadedModel, *, truncate: bool, reads: bool = False
) -> tuple[list[EncodedInput], bool]:
    """Encode one input or several; return them, and whether a single one was given.

    For a model that takes images as well as texts, `reads` says that the input is a text.
    """
    if loaded.input_refusal is not None:
        raise NoHead(loaded.input_refusal)
    either = loaded.modality == "both" and not reads and not _is_encoded_text(inputs)
    if loaded.modality == "picture" or either:
        return encode_images(inputs, loaded)
    if isinstance(inputs, str) or _is_pair(inputs):
        items = encode_value(inputs, loaded, truncate)
        for _, message in items[0].warnings:
            warnings.warn(message, InputWarning, stacklevel=2)
        return items, True
    check_no_images(inputs, loaded)
    inputs = _column_to_list(inputs)
    if is_chat(inputs):
        return [_encode_chat(inputs, loaded, truncate)], True
    if is_mapping(inputs):
        rows = encode_value(inputs, loaded, truncate)
        return rows, len(rows) == 1
    if isinstance(inputs, Iterable) and not isinstance(inputs, bytes | tuple):
        return [item for _, item in encode_each(inputs, loaded, truncate=truncate)], False
    raise BadEncoding(
        f"Cannot explain {str(inputs)[:40]!r} ({type(inputs).__name__}): give a text, a pair (a, b) of texts, "
        "an encoded mapping, chat messages, or a list of these."
    )


def _column_to_list(column: Any) -> Any:
    """Return a table's column, such as a Series, as a list; refuse a whole table."""
    dimensions = getattr(column, "ndim", None)
    if is_data_frame(column):
        names = [repr(name) for name in list_frame_columns(column)[:8]] or ["none"]
        raise BadEncoding(
            f"The input is a table with the columns {', '.join(names)}. Give the one that holds the texts, as in "
            f"table[{names[0]}], or a list of pairs."
        )
    return column.tolist() if dimensions == 1 and hasattr(column, "tolist") else column


def _encode_chat(messages: Any, loaded: LoadedModel, truncate: bool) -> EncodedInput:
    """Encode a chat, without warnings: its template repeats special tokens on purpose."""
    (item,) = encode_value(format_chat(messages, loaded.tokenizer), loaded, truncate)
    return replace(item, warnings=())


def encode_each(
    texts: Iterable[Any],
    loaded: LoadedModel,
    *,
    truncate: bool,
    refuse: RefusalCallback | None = None,
) -> Iterator[tuple[int, EncodedInput]]:
    """Encode a list of inputs in batches; yield each with its number.

    `refuse` is called for each input that cannot be encoded; without it, the first of them is an error.
    """
    rest, size = enumerate(texts), loaded.vocabulary_size  # looked up once: it asks the model
    while chunk := list(islice(rest, _TOKENIZE_BATCH)):
        inputs = [  # a list of two texts is a pair
            tuple(value) if isinstance(value, list) and _is_pair(tuple(value)) else value
            for _, value in chunk
        ]
        ready = tokenize_batch(inputs, loaded.tokenizer)
        for (number, _), value, encoded in zip(chunk, inputs, ready, strict=True):
            try:
                item = _encode_one(value, encoded, loaded, truncate, size)
            except WhenceError as error:
                if refuse is None:
                    raise type(error)(
                        f"Input {number} of the list, counted from 0: {error}"
                    ) from error
                refuse(number, error)
            else:
                for _, message in item.warnings:
                    warnings.warn(message, InputWarning, stacklevel=2)
                yield number, item


def warn_about_unknown_tokens(items: Sequence[EncodedInput], loaded: LoadedModel) -> None:
    """Warn where most tokens of a text are unknown: their scores say nothing about the words."""
    unknown = loaded.fillers.get("unk")
    if unknown is None:
        return
    texts = [item for item in items if item.picture is None and unknown in item.ids]
    counts = [count_unknown(item.tokens, unknown) for item in texts]
    if all(2 * count <= content for count, content in counts):
        return
    what = "most tokens of some of the texts"  # a constant text: Python shows it once per data set, not per batch
    if len(items) == 1:
        what = f"{counts[0][0]} of the {counts[0][1]} tokens of {shorten_quote(items[0].source.text or '')!r}"
    warnings.warn(
        f"The tokenizer does not know {what}: another language, or not the tokenizer that the model was trained "
        "with? Unknown words are all the same to the model, so that their scores say nothing about them.",
        UserWarning,
        stacklevel=2,
    )


def _encode_one(
    value: Any, encoded: Any, loaded: LoadedModel, truncate: bool, size: int | None
) -> EncodedInput:
    if not _is_encoded_text(value):
        check_no_images(value, loaded)
        if is_chat(value):
            return _encode_chat(value, loaded, truncate)
    rows = encode_value(value, loaded, truncate, encoded=encoded, size=size)
    if len(rows) != 1:
        raise BadEncoding(
            f"An encoded mapping of {len(rows)} rows cannot be one of a list. Give one row each."
        )
    return rows[0]


def can_take_pairs(loaded: LoadedModel) -> bool:
    """Return whether the tokenizer separates a pair of texts by a special token."""
    try:
        (item,) = encode_value(("one text", "another"), loaded, True)
    except WhenceError:
        return False
    second = next((i for i, t in enumerate(item.tokens) if t.segment and not t.special), 0)
    return second > 0 and item.tokens[second - 1].special


def encode_value(
    value: Any,
    loaded: LoadedModel,
    truncate: bool,
    cut: Truncation = "longest_first",
    encoded: Any = None,
    size: int | None = None,
) -> list[EncodedInput]:
    """Encode a text, a pair or a mapping of rows; `cut` says which text of a pair is truncated if it is too long.

    `encoded` and `size` are the tokenizer's result and the model's number of token embeddings, where they are known.
    """
    size = loaded.vocabulary_size if size is None else size
    if loaded.task == "answer":
        # The question is never cut: it would become another question.
        cut = "only_second"
        if is_mapping(value) and "input_ids" not in value:  # such as a row of a SQuAD file
            if missing := [name for name in ("question", "context") if name not in value]:
                raise BadEncoding(
                    f"The mapping has no {missing[0]!r}: it has {', '.join(map(repr, value))[:80]}. Give "
                    '{"question": ..., "context": ...}, or encoded input, with \'input_ids\'.'
                )
            value = (value["question"], value["context"])
    if not isinstance(value, str | tuple) and is_mapping(value):
        items = from_mapping(
            value,
            loaded.tokenizer,
            pad_ids=loaded.pad_ids,
            max_length=loaded.max_length,
            vocabulary=size,
        )
    else:
        # A prompt is cut at its beginning; the model continues from its end.
        goes_on = loaded.task == "next"
        longest = None if goes_on and truncate else loaded.max_length
        item = encode(
            value,
            loaded.tokenizer,
            max_length=longest,
            truncate=truncate,
            cut=cut,
            encoded=encoded,
            goes_on=goes_on,
            limit=loaded.length_limit,
        )
        if goes_on:
            item = truncate_prompt(strip_closing_tokens(item), loaded.max_length)
        if size is not None and max(item.ids) >= size:
            raise BadTokenizer(
                f"The tokenizer gives the id {max(item.ids)}, the model has {size} token embeddings. "
                "Give the tokenizer that belongs to the model."
            )
        items = [item]
    return [_select_features(item, loaded) for item in items]


# Features that the model looks up in a table, and the size of this in its configuration.
_FEATURE_LIMITS = {
    "token_type_ids": "type_vocab_size",
    "position_ids": "max_position_embeddings",
}


def _select_features(item: EncodedInput, loaded: LoadedModel) -> EncodedInput:
    """Return the input with the features that the model's forward takes.

    Others are refused, and values on which the model's own code would fail, with a clearer error.
    """
    config, anchors = loaded.model.config, loaded.anchors
    for name, limit in _FEATURE_LIMITS.items():
        values = set(item.features.get(name, ()))
        bound = getattr(config, limit, None) if values else None
        if isinstance(bound, int) and bound and not 0 <= min(values) <= max(values) < bound:
            raise BadEncoding(
                f"{name!r} must lie from 0 to {bound - 1}. Got {min(values)} to {max(values)}."
            )
    if loaded.takes_boxes:
        _check_boxes(item, loaded)
    if loaded.needs_pair and set(item.features.get("token_type_ids", ())) != {0, 1}:
        raise BadEncoding(
            f"{type(loaded.model).__name__} takes a pair of texts and got a single one. Give a pair (a, b), or an "
            "encoded mapping with token_type_ids: 0 for the text that is attended to, 1 for the query."
        )
    if loaded.needs_single_text and 1 in item.features.get("token_type_ids", ()):
        raise BadEncoding(
            f"{type(loaded.model).__name__} takes a single text and got a pair: it has no query to read a second "
            "text by. Give one text, or a model that was trained on pairs."
        )
    if anchors and not anchors.intersection(item.ids):
        raise BadEncoding(
            f"{type(loaded.model).__name__} needs its end-of-sequence token {sorted(anchors)} in every input. "
            "Encode with the model's tokenizer."
        )
    accepts = loaded.forward_keywords
    unknown = [name for name in item.features if accepts is not None and name not in accepts]
    if not unknown:
        return item
    if refused := [name for name in unknown if name not in {"token_type_ids", "attention_mask"}]:
        raise BadEncoding(
            f"{type(loaded.model).__name__} does not take {refused[0]!r}. Leave it out of the mapping."
        )
    return replace(item, features={k: v for k, v in item.features.items() if k not in unknown})


def _check_boxes(item: EncodedInput, loaded: LoadedModel) -> None:
    """Refuse an input of a layout model without valid word boxes; some models would read zeros."""
    kind, boxes = type(loaded.model).__name__, item.features.get(BBOX_FEATURE)
    longest = getattr(loaded.model.config, "max_2d_position_embeddings", None)
    size = longest - 1 if isinstance(longest, int) else 1000
    if boxes is None:
        raise BadEncoding(
            f"The boxes are missing: {kind} reads where each word stands on its page. Give encoded input with "
            f"{BBOX_FEATURE!r} beside 'input_ids': for each token [left, top, right, bottom], numbers from 0 to {size}."
        )
    for box in boxes:
        left, top, right, bottom = box
        if not (0 <= left <= right <= size and 0 <= top <= bottom <= size):
            raise BadEncoding(
                f"The box {list(box)} is none: it must be [left, top, right, bottom], numbers from 0 to {size}."
            )


def _is_encoded_text(value: Any) -> bool:
    return is_mapping(value) and "input_ids" in value.keys()  # noqa: SIM118


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(x, str) for x in value)


def encode_images(value: Any, loaded: LoadedModel) -> tuple[list[EncodedInput], bool]:
    """Encode one image or several; return them, and whether a single one was given."""
    if is_mapping(value):
        rows = _encode_image(value, loaded)
        return rows, len(rows) == 1
    if isinstance(value, str | Path) or can_read_image(value):
        return _encode_image(value, loaded), True
    if isinstance(value, Iterable) and not isinstance(value, tuple) and not hasattr(value, "dim"):
        items: list[EncodedInput] = []
        for number, image in enumerate(value):
            rows = _encode_image(image, loaded)
            if len(rows) != 1:
                raise BadPicture(
                    f"Input {number} of the list has the pixels of {len(rows)} pictures; give one each."
                )
            items += rows
        return items, False
    raise BadPicture(
        f"{type(loaded.model).__name__} takes pictures. Cannot explain a {type(value).__name__}: give a PIL image, "
        "the path of a file, an array, a mapping with 'pixel_values', or a list of these."
    )


def check_no_images(value: Any, loaded: LoadedModel) -> None:
    """Raise BadPicture if an image is given to a text model."""
    names = set(value.keys()) if is_mapping(value) else set()
    encoded = "pixel_values" in names and "input_ids" not in names
    if encoded or isinstance(value, Path) or is_image(value) or isinstance(value, StoredImage):
        what = f"the file {value.name!r}" if isinstance(value, Path) else "a picture"
        raise BadPicture(
            f"{type(loaded.model).__name__} takes texts, and {what} was given. Load a model of pictures, such as "
            "ViTForImageClassification, or give a text."
        )


def _encode_image(image: Any, loaded: LoadedModel) -> list[EncodedInput]:
    try:
        return encode_image(
            image,
            loaded.processor,
            dtype=loaded.dtype,
            lay=partial(find_patch_layout, loaded.model),
        )
    except BadPicture as error:
        if isinstance(image, str) and not Path(image).is_file():
            raise BadPicture(
                f"{type(loaded.model).__name__} takes pictures, so {shorten_quote(image)!r} was taken for the path of a "
                "file, and there is none. Give the path of a picture, a PIL image, an array, or a mapping with "
                "'pixel_values'."
            ) from error
        raise
