"""Example of a data set (text, pair or image; label, rationale, mask), its table columns, and mask decoding.

Columns are resolved once for a table: those named by the user, else the usual names. Images come from a
folder, from a column of a table, or from a list. None is decoded before it is needed. A mask is resized and
cropped as its image was, without interpolation between object and background.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.errors import BadExamples, BadPicture, shorten_quote, suggest_name
from whence.data.eraser import RationaleSpan, parse_rationale
from whence.data.images import is_image, open_image
from whence.data.readers import TableRow
from whence.stats.segmentation import BACKGROUND, OBJECT, UNLABELLED


@dataclass(frozen=True, eq=False, repr=False)
class StoredImage:
    """A reference to an image that is read on demand: a file, bytes, a PIL image, an array."""

    source: Any
    name: str

    def read(self) -> Any:
        """Return the image as stored; `whence.data.images.open_image` decodes it."""
        return self.source

    def __repr__(self) -> str:
        # No memory address: the same pictures must give the same data set hash in every process.
        source = self.source
        if isinstance(source, Path):
            return f"<picture {self.name}>"
        raw = source if isinstance(source, bytes | bytearray) else np.asarray(source).tobytes()
        return f"<picture {self.name} {sha256(raw).hexdigest()[:16]}>"


@dataclass(frozen=True)
class ImageMask:
    """The mask of an image, not yet decoded.

    The object is light. In a trimap 1 is the object, 2 the background, and 3 the border, which is
    unlabelled.
    """

    picture: StoredImage
    trimap: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """One input with its human annotation: label, rationale and mask."""

    given: str | tuple[str, str] | StoredImage
    label: str | None = None
    rationale: tuple[RationaleSpan, ...] | None = None  # None: not annotated
    mask: ImageMask | None = None  # the outline of the object in a picture

    @property
    def is_image(self) -> bool:
        """Whether the input is an image."""
        return isinstance(self.given, StoredImage)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, or both texts of a pair; empty for an image."""
        if isinstance(self.given, StoredImage):
            return ()
        return (self.given,) if isinstance(self.given, str) else self.given


TEXT_COLUMNS = ("text", "sentence", "review", "content")
PAIR_COLUMNS = (
    ("text", "pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "context"),
    ("question", "sentence"),
    ("question1", "question2"),
)
# Models with a query attend to the first text, so there the passage comes first.
PASSAGE_FIRST_COLUMNS = (
    ("story", "question"),
    ("passage", "question"),
    ("context", "question"),
    ("tokens", "query"),
    *PAIR_COLUMNS,
)
LABEL_COLUMNS = (
    *("label", "labels", "class", "category", "target", "sentiment", "answer", "gold_label"),
)
IMAGE_COLUMNS = ("image", "picture", "img", "photo", "jpeg", "jpg", "png")
IMAGE_ENDINGS = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm"}
)
TRIMAP = "trimap"
_MASK_WORDS = ("mask", TRIMAP, "segmentation")
_PREVIEW_ROWS, _PREVIEW_CHARACTERS = 5, 200  # rows and characters per cell of the preview
_COLUMNS_HINT = (
    f"{', '.join(TEXT_COLUMNS)}, tokens, or a pair such as premise and hypothesis. "
    "Name yours: text=..., --text COLUMN, or Columns on the page"
)


class UnknownColumns(BadExamples):
    """Raised if a table has no recognisable text column, or lacks a named column.

    The error has the names of the columns and the first rows, so that the app can offer a choice.
    """

    def __init__(self, message: str, columns: Iterable[str]) -> None:
        super().__init__(message)
        self.columns = tuple(map(str, columns))
        self.first: tuple[tuple[str, ...], ...] = ()

    def with_rows(self, rows: Iterable[Mapping[str, Any]]) -> "UnknownColumns":
        """Return the error with a preview of the first rows, long cells cut."""
        head = list(islice(rows, _PREVIEW_ROWS))
        self.columns = tuple(dict.fromkeys([*self.columns, *(str(k) for row in head for k in row)]))
        self.first = tuple(
            tuple(_format_cell(row.get(column)) for column in self.columns) for row in head
        )
        return self


def _format_cell(value: Any) -> str:
    text = "" if value is None else str(value)[: 4 * _PREVIEW_CHARACTERS]
    return shorten_quote(" ".join(text.split()), _PREVIEW_CHARACTERS)


@dataclass(frozen=True)
class Columns:
    """The columns of a table that are read, and which of them were guessed."""

    texts: tuple[str, ...]  # one, or two of a pair; for pictures the column that holds them
    label: str | None
    guessed: tuple[str, ...]  # those of text, pair and label that were guessed
    has: tuple[str, ...]  # all columns of the data
    pictures: bool = False
    mask: str | None = None

    @property
    def pair(self) -> str | None:
        """The column of second texts."""
        return self.texts[1] if len(self.texts) == 2 else None

    def build_example(self, where: str, row: Mapping[str, Any]) -> Example:
        """Build an example from one row."""
        for column in () if self.pictures else self.texts:
            check_column(row, column, where)
        label = None if self.label is None else row.get(self.label)
        if label == "" or (isinstance(label, float) and math.isnan(label)):
            label = None
        if label is not None and not _is_label(label):
            raise BadExamples(
                f"{where}: the label in {self.label!r} is {str(label)[:40]!r} ({type(label).__name__}). "
                "Allowed: one name or number."
            )
        label = None if label is None else str(label)
        if self.pictures:
            picture = _find_image(row.get(self.texts[0]))
            if picture is None:
                raise BadExamples(
                    f"{where}: there is no picture in {self.texts[0]!r}. Take the row out."
                )
            own = row.get("name")
            name = own if isinstance(own, str) and own else where
            mask = None if self.mask is None else _find_image(row.get(self.mask))
            return _build_image_example(name, picture, label, mask, TRIMAP in str(self.mask))
        parts = [_parse_text(where, name, row[name]) for name in self.texts]
        rationale = parse_rationale(where, row, self.texts, parts)
        return Example(parts[0] if len(parts) == 1 else (parts[0], parts[1]), label, rationale)


def resolve_columns(
    name: str,
    rows: Sequence[TableRow],
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    two: Sequence[tuple[str, str]] = PASSAGE_FIRST_COLUMNS,
) -> Columns:
    """Choose the columns from some rows, the first included: the named ones, else the usual ones.

    A `pair` or `label` of "" says that there is none. `two`: the usual names of two texts, in their order.
    """
    first, cells = rows[0][1], [row for _, row in rows]
    has = tuple(dict.fromkeys(str(key) for row in cells for key in row))
    picture = None if text else _find_image_column(first)
    mask = None
    if picture is None:
        two = () if pair == "" else two
        texts = _find_text_columns(list(first), text or None, pair or None, name, two)
    else:
        texts = (picture,)
        masks = (own for own in first if own != picture and _is_mask(own))
        mask = next((own for own in masks if _find_image(first[own]) is not None), None)
    column = None
    if label:
        column = check_column(has, label, name)
    elif label is None:
        # The first column with a usual name that holds one name or number a row.
        usual = LABEL_COLUMNS if picture is None else (*LABEL_COLUMNS, "species")
        for one in usual:
            values = [row.get(one) for row in cells if row.get(one) is not None]
            if one in has and one not in texts and all(map(_is_label, values)):
                column = one
                break
    requested = {"text": text or None, "pair": pair, "label": label}
    used = dict(zip(("text", "pair"), texts, strict=False)) | ({"label": column} if column else {})
    guessed = tuple(role for role in used if requested[role] is None)
    return Columns(texts, column, guessed, has, picture is not None, mask)


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _find_text_columns(
    has: list[str],
    text: str | None,
    pair: str | None,
    name: str,
    two: Sequence[tuple[str, str]],
) -> tuple[str, ...]:
    """Return the columns of the text, or of the two texts: the requested ones, else the usual ones."""
    if pair is not None and text is None:
        text = next(
            (column for column in (*TEXT_COLUMNS, "tokens") if column in has and column != pair),
            "text",
        )
    if text is not None:
        requested = (text,) if pair is None else (text, pair)
        return tuple(check_column(has, column, name) for column in requested)
    both = next((columns for columns in two if all(column in has for column in columns)), None)
    if both is not None:
        return both
    # Token spans fit the column of tokens, and a column of texts only by chance.
    order = ("tokens", *TEXT_COLUMNS) if "rationale_spans" in has else (*TEXT_COLUMNS, "tokens")
    alone = next((column for column in order if column in has), None)
    if alone is None:
        raise UnknownColumns(
            f"{name} has no column of texts; it has {', '.join(map(str, has)) or 'none'}. Allowed: {_COLUMNS_HINT}.",
            has,
        )
    return (alone,)


def check_column(row: Iterable[str], name: str, file: str) -> str:
    """Return the name of a column; raise UnknownColumns if there is none of that name."""
    has = [str(column) for column in row]
    if name not in has:
        raise UnknownColumns(
            f"{file} has no column {name!r}; it has {', '.join(has) or 'none'}.{suggest_name(name, has)}",
            has,
        )
    return name


def _parse_text(where: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return " ".join(value)
    raise BadExamples(
        f"{where}: {name!r} is {str(value)[:40]!r} ({type(value).__name__}). Allowed: a text, or a list of tokens."
    )


def _find_image_column(row: Mapping[str, Any]) -> str | None:
    """Return the image column of a row: one with a usual name, else the only one of encoded bytes."""
    for name in IMAGE_COLUMNS:
        if _find_image(row.get(name)) is not None:
            return name
    others = [name for name in row if name not in {*TEXT_COLUMNS, "tokens"} and not _is_mask(name)]
    encoded = [name for name in others if isinstance(_find_image(row[name]), bytes)]
    return encoded[0] if len(encoded) == 1 else None


def _is_mask(name: Any) -> bool:
    return any(word in str(name).lower() for word in _MASK_WORDS)


def _find_image(value: Any) -> Any | None:
    """Return the image in a cell: encoded bytes, or in a list also a path, a PIL image or an array."""
    if isinstance(value, Mapping):  # of the package datasets
        value = value.get("bytes")
        return value if isinstance(value, bytes) and value else None
    is_empty = isinstance(value, bytes) and not value
    return value if _is_image_source(value) and not is_empty else None


def _is_image_source(value: Any) -> bool:
    return isinstance(value, bytes | Path | StoredImage) or is_image(value)


def parse_image(where: str, raw: Any) -> Example | None:
    """Parse an image, (image, label) or (image, label, mask); None if it is none of these."""
    parts = raw if isinstance(raw, tuple | list) else [raw]
    if not 1 <= len(parts) <= 3 or not _is_image_source(parts[0]):
        return None
    picture, label, mask = (*parts, None, None)[:3]
    if label is not None and not isinstance(label, str | int):
        raise BadExamples(
            f"{where}: the label is a {type(label).__name__}. Allowed: a name or a number."
        )
    if mask is not None and not _is_image_source(mask):
        raise BadExamples(
            f"{where}: the mask is a {type(mask).__name__}. Allowed: a path, a PIL image, or an array that is true "
            "on the object."
        )
    return _build_image_example(where, picture, None if label is None else str(label), mask)


def _build_image_example(
    name: str, picture: Any, label: str | None, mask: Any, trimap: bool = False
) -> Example:
    outline = None
    if mask is not None:
        outline = ImageMask(_build_stored_image(mask, f"mask of {name}"), trimap)
    return Example(_build_stored_image(picture, name), label, mask=outline)


def _build_stored_image(source: Any, name: str) -> StoredImage:
    if isinstance(source, StoredImage):
        return source
    if isinstance(source, np.ndarray) and source.dtype == bool:
        source = source.astype(np.uint8) * 255
    return StoredImage(source, str(source) if isinstance(source, Path) else name)


ObjectMask = np.ndarray[Any, np.dtype[np.int8]]
_NEAREST = 0  # PIL's number of nearest-neighbour resampling
_TRIMAP_VALUES = {1: OBJECT, 2: BACKGROUND, 3: UNLABELLED}  # pixel values of a trimap


def read_mask(mask: ImageMask) -> ObjectMask:
    """Decode a mask, (height, width): 1 on the object, 0 on the background, -1 where unlabelled."""
    name = mask.picture.name
    grey = np.asarray(open_image(mask.picture, name))[:, :, 0]
    if not mask.trimap:
        # The threshold is half-way between dark and light: there lies a smoothed outline.
        return np.asarray(2 * grey.astype(np.int16) > max(int(grey.max()), 1), dtype=np.int8)
    if not set(np.unique(grey).tolist()) <= set(_TRIMAP_VALUES):
        raise BadPicture(
            f"{name!r} is not a trimap: it has the values {np.unique(grey)[:6].tolist()}. Allowed: 1 (object), "
            "2 (ground) and 3 (border)."
        )
    table = np.zeros(4, dtype=np.int8)
    table[list(_TRIMAP_VALUES)] = list(_TRIMAP_VALUES.values())
    return np.asarray(table[grey])


def fit_mask(mask: ImageMask, processor: Any) -> ObjectMask:
    """Return the mask at the model's pixels: the processor crops it as it crops the image."""
    from PIL import Image

    raw = (read_mask(mask) + 1).astype(np.uint8)
    outputs = processor(
        images=Image.fromarray(np.stack([raw] * 3, 2)),
        resample=_NEAREST,
        do_rescale=False,
        do_normalize=False,
        do_convert_rgb=False,
        return_tensors="np",
    )
    pixels = np.asarray(outputs["pixel_values"])[0, 0]
    return np.asarray(np.round(pixels).astype(np.int8) - 1)
