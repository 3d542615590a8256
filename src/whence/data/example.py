"""Example of a data set (text, pair or image; label, rationale, mask), its table columns, and mask decoding.

Images come from a folder, from a column of packed images in a table, or from a list. None is decoded before
it is needed. A mask is resized and cropped as its image was, without interpolation between object and
background.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.errors import BadExamples, BadPicture, shorten_quote, suggest_name
from whence.data.eraser import RationaleSpan
from whence.data.images import is_image, open_image
from whence.data.readers import RemoteFile
from whence.stats.segmentation import BACKGROUND, OBJECT, UNLABELLED

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
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "answer",
    "gold_label",
)
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
    return (
        ""
        if value is None
        else shorten_quote(
            " ".join(str(value)[: 4 * _PREVIEW_CHARACTERS].split()), _PREVIEW_CHARACTERS
        )
    )


def find_text_columns(
    row: Iterable[str],
    text: str | None,
    pair: str | None,
    file: str,
    two: Sequence[tuple[str, str]] = PAIR_COLUMNS,
) -> tuple[str, ...]:
    """Return the columns of the text, or of the two texts: the requested ones, else the usual ones."""
    row = list(row)
    if pair is not None and text is None:
        text = next(
            (name for name in (*TEXT_COLUMNS, "tokens") if name in row and name != pair), "text"
        )
    if text is not None:
        requested = (text,) if pair is None else (text, pair)
        return tuple(check_column(row, name, file) for name in requested)
    both = next((names for names in two if all(name in row for name in names)), None)
    if both is not None:
        return both
    # Token spans fit the column of tokens, and a column of texts only by chance.
    order = ("tokens", *TEXT_COLUMNS) if "rationale_spans" in row else (*TEXT_COLUMNS, "tokens")
    alone = next((name for name in order if name in row), None)
    if alone is None:
        has = ", ".join(map(str, row)) or "none"
        raise UnknownColumns(
            f"{file} has no column of texts; it has {has}. Allowed: {_COLUMNS_HINT}.", row
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


def guess_label_column(rows: Sequence[Mapping[str, Any]], texts: Collection[str]) -> str | None:
    """Return the first column with a usual label name that holds one name or number a row."""
    for name in LABEL_COLUMNS:
        if name not in texts and any(name in row for row in rows):
            values = [row.get(name) for row in rows]
            if all(value is None or isinstance(value, str | int | float) for value in values):
                return name
    return None


def parse_label(where: str, name: str, value: Any) -> str | None:
    """Return a label as text; None for a missing one."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str | int | float):
        return str(value)
    raise BadExamples(
        f"{where}: the label in {name!r} is {str(value)[:40]!r} ({type(value).__name__}). "
        "Allowed: one name or number."
    )


IMAGE_ENDINGS = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm"}
)
IMAGE_COLUMNS = ("image", "picture", "img", "photo", "jpeg", "jpg", "png")
_MASK_WORDS = ("mask", "trimap", "segmentation")
TRIMAP = "trimap"


@dataclass(frozen=True, eq=False, repr=False)
class StoredImage:
    """A reference to an image that is read on demand: a file, an address, bytes, a PIL image, an array."""

    source: Any
    name: str

    def read(self) -> Any:
        """Return the image as stored; `whence.data.images.open_image` decodes it."""
        return self.source.read() if isinstance(self.source, RemoteFile) else self.source

    def __repr__(self) -> str:
        # No memory address: the same pictures must give the same data set hash in every process.
        source = self.source
        if isinstance(source, Path | RemoteFile):
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


@dataclass(frozen=True)
class LabelledImage:
    """One image of a data set, with its label and mask."""

    picture: StoredImage
    label: str | None = None
    mask: ImageMask | None = None


@dataclass(frozen=True)
class ImageColumns:
    """The columns of a table that hold images, labels and masks."""

    picture: str
    label: str | None
    mask: str | None

    def read_image(self, where: str, row: Mapping[str, Any]) -> LabelledImage:
        """Read the image, label and mask of one row."""
        raw = _find_image_bytes(row.get(self.picture))
        if raw is None:
            raise BadExamples(
                f"{where}: there is no picture in {self.picture!r}. Take the row out."
            )
        label = None if self.label is None else parse_label(where, self.label, row.get(self.label))
        mask_bytes = None if self.mask is None else _find_image_bytes(row.get(self.mask))
        own = row.get("name")
        name = own if isinstance(own, str) and own else where
        mask = None
        if mask_bytes is not None:
            mask = ImageMask(StoredImage(mask_bytes, f"mask of {name}"), TRIMAP in str(self.mask))
        return LabelledImage(StoredImage(raw, name), label, mask)


def find_image_columns(first: Mapping[str, Any], label: str | None) -> ImageColumns | None:
    """Choose the image columns from the first row of a table; None if none holds images."""
    picture = find_image_column(first)
    if picture is None:
        return None
    mask = next(
        (n for n in first if n != picture and _is_mask_column(n) and _find_image_bytes(first[n])),
        None,
    )
    return ImageColumns(picture, find_image_label_column(first, label), mask)


def find_image_label_column(row: Mapping[str, Any], requested: str | None) -> str | None:
    """Return the label column: the requested one, or one with a usual name."""
    if requested:
        return check_column(row, requested, "The data set")
    return next((name for name in (*LABEL_COLUMNS, "species") if name in row), None)


def find_image_column(row: Mapping[str, Any]) -> str | None:
    """Return the image column of a row: one with a usual name, else the only one of encoded bytes."""
    texts = {*TEXT_COLUMNS, "tokens"}
    columns = [
        name
        for name, value in row.items()
        if name not in texts and not _is_mask_column(name) and _find_image_bytes(value)
    ]
    usual = [name for name in IMAGE_COLUMNS if name in columns]
    if usual or len(columns) == 1:
        return (usual or columns)[0]
    return None


def parse_image(where: str, raw: Any) -> LabelledImage | None:
    """Parse an image, (image, label) or (image, label, mask); None if it is none of these."""
    if _is_image_source(raw):
        return LabelledImage(_build_stored_image(raw, where))
    if not isinstance(raw, tuple | list) or not 1 < len(raw) <= 3 or not _is_image_source(raw[0]):
        return None
    label, mask = raw[1], raw[2] if len(raw) == 3 else None
    if label is not None and not isinstance(label, str | int):
        raise BadExamples(
            f"{where}: the label is a {type(label).__name__}. Allowed: a name or a number."
        )
    if mask is not None and not _is_image_source(mask):
        raise BadExamples(
            f"{where}: the mask is a {type(mask).__name__}. Allowed: a path, a PIL image, or an array that is true "
            "on the object."
        )
    outline = None if mask is None else ImageMask(_build_stored_image(mask, f"mask of {where}"))
    return LabelledImage(
        _build_stored_image(raw[0], where), None if label is None else str(label), outline
    )


def parse_image_mapping(
    where: str, row: Mapping[str, Any], label: str | None
) -> LabelledImage | None:
    """Parse a mapping such as {"image": ..., "label": ..., "mask": ...}; None without an image."""
    column = next(
        (
            name
            for name in IMAGE_COLUMNS
            if _is_image_source(row.get(name)) or _find_image_bytes(row.get(name))
        ),
        None,
    )
    if column is None:
        return None
    value = row.get(label or "label")
    return parse_image(
        where, (_find_image_bytes(row[column]) or row[column], value, row.get("mask"))
    )


def _is_image_source(source: Any) -> bool:
    return isinstance(source, Path | StoredImage | bytes) or is_image(source)


def _build_stored_image(source: Any, name: str) -> StoredImage:
    if isinstance(source, StoredImage):
        return source
    if isinstance(source, np.ndarray) and source.dtype == bool:
        source = source.astype(np.uint8) * 255
    return StoredImage(source, str(source) if isinstance(source, Path) else name)


def _find_image_bytes(value: Any) -> bytes | None:
    """Return the encoded image in a cell: bytes, or the mapping of the package datasets."""
    if isinstance(value, Mapping):
        value = value.get("bytes")
    return value if isinstance(value, bytes) and value else None


def _is_mask_column(name: str) -> bool:
    return any(word in name.lower() for word in _MASK_WORDS)


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
