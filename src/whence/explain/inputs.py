"""From whatever was given to encoded inputs that fit the model."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from whence.core.errors import BadEncoding, BadTokenizer, WhenceError, short
from whence.data import Encoded, encode, from_mapping, is_mapping
from whence.data.sets.frames import frame_columns, is_frame
from whence.data.text.chat import chat_text, is_chat
from whence.data.text.encode import Cut, tokenized
from whence.data.text.mapping import BOXES
from whence.data.text.shorten import shortened, unended
from whence.data.text.vocabulary import count_unknown
from whence.explainer.pictures import refuse_pictures, take_pictures
from whence.models import Loaded


class InputWarning(UserWarning):
    """Something about an input that a reader of its explanation must know."""


_AT_A_TIME = 64  # texts that are tokenized at once

Refuse = Callable[[int, WhenceError], None]  # an input's number, and why it cannot be taken


def take(
    given: Any, loaded: Loaded, *, truncate: bool, reads: bool = False
) -> tuple[list[Encoded], bool]:
    """Encode whatever was given; say whether it was a single input.

    Of a model that takes pictures as well as texts, `reads` says that it is a text.
    """
    loaded.require_input()
    either = loaded.modality == "both" and not reads and not _is_encoded_text(given)
    if loaded.modality == "picture" or either:
        return take_pictures(given, loaded)
    refuse_pictures(given, loaded)
    given = _column(given)
    if is_chat(given):
        return [_take_chat(given, loaded, truncate)], True
    if is_mapping(given):
        rows = _encode(given, loaded, truncate)
        return rows, len(rows) == 1
    if isinstance(given, str) or _is_pair(given):
        return [_warn(item) for item in _encode(given, loaded, truncate)], True
    if isinstance(given, Iterable) and not isinstance(given, bytes | tuple):
        return [item for _, item in take_each(given, loaded, truncate=truncate)], False
    raise BadEncoding(
        f"Cannot explain {str(given)[:40]!r} ({type(given).__name__}): give a text, a pair (a, b) of texts, "
        "an encoded mapping, chat messages, or a list of these."
    )


def _column(given: Any) -> Any:
    """Return a column of a table, such as a Series, as a list; refuse a whole table, and leave all else as it is."""
    dimensions = getattr(given, "ndim", None)
    if is_frame(given):
        names = [repr(name) for name in frame_columns(given)[:8]] or ["none"]
        raise BadEncoding(
            f"The input is a table with the columns {', '.join(names)}. Give the one that holds the texts, as in "
            f"table[{names[0]}], or a list of pairs."
        )
    return given.tolist() if dimensions == 1 and hasattr(given, "tolist") else given


def _take_chat(messages: Any, loaded: Loaded, truncate: bool) -> Encoded:
    """Encode a conversation; that its template begins it as the tokenizer would is no news to anybody."""
    (item,) = _encode(chat_text(messages, loaded.tokenizer), loaded, truncate)
    return replace(item, warnings=())


def take_each(
    given: Iterable[Any], loaded: Loaded, *, truncate: bool, refuse: Refuse | None = None
) -> Iterator[tuple[int, Encoded]]:
    """Encode texts, pairs and encoded mappings, one each, and yield them with their numbers.

    `refuse` is told of those that cannot be taken; without it, the first of them is an error.
    """
    rest = enumerate(given)
    while some := list(islice(rest, _AT_A_TIME)):
        inputs = [_paired(one) for _, one in some]
        ready = tokenized(inputs, loaded.tokenizer)
        for (number, _), one, encoded in zip(some, inputs, ready, strict=True):
            try:
                item = _take_one(one, encoded, loaded, truncate)
            except WhenceError as error:
                if refuse is None:
                    raise type(error)(
                        f"Input {number} of the list, counted from 0: {error}"
                    ) from error
                refuse(number, error)
            else:
                yield number, _warn(item)


def warn_of_unknown(items: Sequence[Encoded], loaded: Loaded) -> None:
    """Say so where most tokens of a text are unknown to the tokenizer: nothing is learnt about its words."""
    texts = [item.tokens for item in items if item.picture is None]
    counts = [count_unknown(tokens, loaded.fillers.get("unk")) for tokens in texts]
    if all(2 * count <= content for count, content in counts):
        return
    what = "most tokens of some of the texts"  # so that Python says it once, and not for every portion of a data set
    if len(items) == 1:
        what = (
            f"{counts[0][0]} of the {counts[0][1]} tokens of {short(items[0].source.text or '')!r}"
        )
    warnings.warn(
        f"The tokenizer does not know {what}: another language, or not the tokenizer that the model was trained "
        "with? Unknown words are all the same to the model, so that their scores say nothing about them.",
        UserWarning,
        stacklevel=2,
    )


def _warn(item: Encoded) -> Encoded:
    """Say what must be known of an input; of many that it is true of, Python says it once."""
    for _, message in item.warnings:
        warnings.warn(message, InputWarning, stacklevel=2)
    return item


def _take_one(one: Any, encoded: Any, loaded: Loaded, truncate: bool) -> Encoded:
    refuse_pictures(one, loaded)
    if is_chat(one):
        return _take_chat(one, loaded, truncate)
    rows = _encode(one, loaded, truncate, encoded=encoded)
    if len(rows) != 1:
        raise BadEncoding(
            f"An encoded mapping of {len(rows)} rows cannot be one of a list. Give one row each."
        )
    return rows[0]


def _paired(one: Any) -> Any:
    """Return two texts in a list as a pair of them, and all else as it is."""
    return tuple(one) if isinstance(one, list) and _is_pair(tuple(one)) else one


def takes_pairs(loaded: Loaded) -> bool:
    """Say whether two texts can be given: whether the tokenizer keeps them apart by a token of its own."""
    try:
        (item,) = _encode(("one text", "another"), loaded, True)
    except WhenceError:
        return False
    second = next((i for i, t in enumerate(item.tokens) if t.segment and not t.special), 0)
    return second > 0 and item.tokens[second - 1].special


def take_pair(
    given: tuple[str, str], loaded: Loaded, *, truncate: bool, cut: Cut = "longest_first"
) -> Encoded:
    """Encode a pair of texts; `cut` says which of them gives way where it is too long."""
    return _encode(given, loaded, truncate, cut)[0]


def _question(row: Any) -> tuple[str, str]:
    """Return a question and its context, from a mapping that may say more, such as a row of a data set."""
    if missing := [name for name in ("question", "context") if name not in row]:
        raise BadEncoding(
            f"The mapping has no {missing[0]!r}: it has {', '.join(map(repr, row))[:80]}. Give "
            '{"question": ..., "context": ...}, or encoded input, with \'input_ids\'.'
        )
    return row["question"], row["context"]


def _encode(
    given: Any,
    loaded: Loaded,
    truncate: bool,
    cut: Cut = "longest_first",
    encoded: Any = None,
) -> list[Encoded]:
    if loaded.task == "answer":
        # A question is never cut: what it asks would be another thing.
        cut = "only_second"
        if is_mapping(given) and "input_ids" not in given:
            given = _question(given)
    if is_mapping(given):
        items = from_mapping(
            given,
            loaded.tokenizer,
            pad_ids=loaded.pad_ids,
            max_length=loaded.max_length,
            vocabulary=loaded.vocabulary,
        )
    else:
        # A prompt gives way at its beginning, not at the end that the model goes on from.
        goes_on = loaded.task == "next"
        longest = None if goes_on and truncate else loaded.max_length
        item = encode(
            given,
            loaded.tokenizer,
            max_length=longest,
            truncate=truncate,
            cut=cut,
            encoded=encoded,
            goes_on=goes_on,
            limit=loaded.limit,
        )
        if goes_on:
            item = shortened(unended(item), loaded.max_length)
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
    accepts = loaded.accepts
    unknown = [name for name in item.features if accepts is not None and name not in accepts]
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
    _check_boxes(item, loaded)
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


def _check_boxes(item: Encoded, loaded: Loaded) -> None:
    """Refuse a text without the places of its words where a model reads them; some would take zeros for them."""
    if not loaded.boxed:
        return
    kind, boxes = type(loaded.model).__name__, item.features.get(BOXES)
    longest = getattr(loaded.model.config, "max_2d_position_embeddings", None)
    size = longest - 1 if isinstance(longest, int) else 1000
    if boxes is None:
        raise BadEncoding(
            f"The boxes are missing: {kind} reads where each word stands on its page. Give encoded input with "
            f"{BOXES!r} beside 'input_ids': for each token [left, top, right, bottom], numbers from 0 to {size}."
        )
    for box in boxes:
        left, top, right, bottom = box
        if not (0 <= left <= right <= size and 0 <= top <= bottom <= size):
            raise BadEncoding(
                f"The box {list(box)} is none: it must be [left, top, right, bottom], numbers from 0 to {size}."
            )


def _is_encoded_text(given: Any) -> bool:
    return is_mapping(given) and "input_ids" in given.keys()  # noqa: SIM118


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, str) for x in given)


"""From whatever was given to pictures that fit the model."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from whence.capture.anatomy.patches import layout
from whence.core.errors import BadPicture, short
from whence.data import Encoded, is_mapping
from whence.data.sets.pictures import Stored
from whence.data.vision.image import holds_picture, is_picture
from whence.data.vision.see import see
from whence.models import Loaded


def take_pictures(given: Any, loaded: Loaded) -> tuple[list[Encoded], bool]:
    """Encode whatever was given; say whether it was a single picture."""
    if is_mapping(given):
        rows = _seen(given, loaded)
        return rows, len(rows) == 1
    if isinstance(given, str | Path) or holds_picture(given):
        return _seen(given, loaded), True
    if isinstance(given, Iterable) and not isinstance(given, tuple) and not hasattr(given, "dim"):
        items: list[Encoded] = []
        for number, one in enumerate(given):
            rows = _seen(one, loaded)
            if len(rows) != 1:
                raise BadPicture(
                    f"Input {number} of the list has the pixels of {len(rows)} pictures; give one each."
                )
            items += rows
        return items, False
    raise BadPicture(
        f"{type(loaded.model).__name__} takes pictures. Cannot explain a {type(given).__name__}: give a PIL image, "
        "the path of a file, an array, a mapping with 'pixel_values', or a list of these."
    )


def refuse_pictures(given: Any, loaded: Loaded) -> None:
    """Say it where a picture was given to a model of texts."""
    names = set(given.keys()) if is_mapping(given) else set()
    encoded = "pixel_values" in names and "input_ids" not in names
    if encoded or isinstance(given, Path) or is_picture(given) or isinstance(given, Stored):
        what = f"the file {given.name!r}" if isinstance(given, Path) else "a picture"
        raise BadPicture(
            f"{type(loaded.model).__name__} takes texts, and {what} was given. Load a model of pictures, such as "
            "ViTForImageClassification, or give a text."
        )


def _seen(given: Any, loaded: Loaded) -> list[Encoded]:
    try:
        return see(given, loaded.processor, dtype=loaded.dtype, lay=partial(layout, loaded.model))
    except BadPicture as error:
        if isinstance(given, str) and not Path(given).is_file():
            raise BadPicture(
                f"{type(loaded.model).__name__} takes pictures, so {short(given)!r} was taken for the path of a "
                "file, and there is none. Give the path of a picture, a PIL image, an array, or a mapping with "
                "'pixel_values'."
            ) from error
        raise
