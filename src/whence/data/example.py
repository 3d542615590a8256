"""Pictures of a data set, each with its label and the mask of what is on it. None is unpacked before its turn.

They come from a folder (whence.data.sets.album), from a column of packed pictures in a table, or from a list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.errors import BadExamples
from whence.data.sets.address import Far
from whence.data.sets.columns import LABELS, ONE, known, label_of
from whence.data.vision.image import is_picture

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm"})
COLUMNS = ("image", "picture", "img", "photo", "jpeg", "jpg", "png")
_MASKS = ("mask", "trimap", "segmentation")
TRIMAP = "trimap"


@dataclass(frozen=True, eq=False, repr=False)
class Stored:
    """One picture that can be read when it is wanted: a file here or elsewhere, packed bytes, an image, an array."""

    source: Any
    name: str

    def read(self) -> Any:
        """Return the picture as it is kept; `whence.data.vision.image.opened` makes pixels of it."""
        return self.source.read() if isinstance(self.source, Far) else self.source

    def __repr__(self) -> str:
        # The same pictures in another order are the same data set: this must not tell where it lies in memory.
        given = self.source
        if isinstance(given, Path | Far):
            return f"<picture {self.name}>"
        raw = given if isinstance(given, bytes | bytearray) else np.asarray(given).tobytes()
        return f"<picture {self.name} {sha256(raw).hexdigest()[:16]}>"


@dataclass(frozen=True)
class Outlined:
    """The mask of a picture, not yet unpacked.

    It is light where the object is. In a trimap 1 is the object, 2 the ground, and 3 the border, of which nobody says
    on which side it is.
    """

    picture: Stored
    trimap: bool = False


@dataclass(frozen=True)
class Found:
    """One picture of a data set."""

    picture: Stored
    label: str | None = None
    mask: Outlined | None = None


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold the pictures, their labels and their masks."""

    picture: str
    label: str | None
    mask: str | None

    def found(self, where: str, row: Mapping[str, Any]) -> Found:
        """Take the picture of one row."""
        raw = _raw(row.get(self.picture))
        if raw is None:
            raise BadExamples(
                f"{where}: there is no picture in {self.picture!r}. Take the row out."
            )
        said = None if self.label is None else label_of(where, self.label, row.get(self.label))
        drawn = None if self.mask is None else _raw(row.get(self.mask))
        own = row.get("name")
        name = own if isinstance(own, str) and own else where
        mask = None
        if drawn is not None:
            mask = Outlined(Stored(drawn, f"mask of {name}"), TRIMAP in str(self.mask))
        return Found(Stored(raw, name), said, mask)


def columns(first: Mapping[str, Any], label: str | None) -> Columns | None:
    """Choose the columns by the first row of a table; None if none holds pictures."""
    picture = picture_column(first)
    if picture is None:
        return None
    mask = next((n for n in first if n != picture and _names_mask(n) and _raw(first[n])), None)
    return Columns(picture, label_column(first, label), mask)


def label_column(row: Mapping[str, Any], asked: str | None) -> str | None:
    """Name the column of the labels: the one asked for, or one with a usual name."""
    if asked:
        return known(row, asked, "The data set")
    return next((name for name in (*LABELS, "species") if name in row), None)


def picture_column(row: Mapping[str, Any]) -> str | None:
    """Name the column of a row that holds a picture: one of the usual names, else the only one of packed bytes."""
    texts = {*ONE, "tokens"}
    packed = [
        name
        for name, value in row.items()
        if name not in texts and not _names_mask(name) and _raw(value)
    ]
    usual = [name for name in COLUMNS if name in packed]
    if usual or len(packed) == 1:
        return (usual or packed)[0]
    return None


def taken(where: str, one: Any) -> Found | None:
    """Take a picture, (picture, label) or (picture, label, mask); None if it is none of these."""
    if _given(one):
        return Found(_stored(one, where))
    if not isinstance(one, tuple | list) or not 1 < len(one) <= 3 or not _given(one[0]):
        return None
    label, mask = one[1], one[2] if len(one) == 3 else None
    if label is not None and not isinstance(label, str | int):
        raise BadExamples(
            f"{where}: the label is a {type(label).__name__}. Allowed: a name or a number."
        )
    if mask is not None and not _given(mask):
        raise BadExamples(
            f"{where}: the mask is a {type(mask).__name__}. Allowed: a path, a PIL image, or an array that is true "
            "on the object."
        )
    outlined = None if mask is None else Outlined(_stored(mask, f"mask of {where}"))
    return Found(_stored(one[0], where), None if label is None else str(label), outlined)


def from_mapping(where: str, row: Mapping[str, Any], label: str | None) -> Found | None:
    """Take a mapping such as {"image": ..., "label": ..., "mask": ...}; None if it holds no picture."""
    column = next((name for name in COLUMNS if _given(row.get(name)) or _raw(row.get(name))), None)
    if column is None:
        return None
    said = row.get(label or "label")
    return taken(where, (_raw(row[column]) or row[column], said, row.get("mask")))


def _given(one: Any) -> bool:
    return isinstance(one, Path | Stored | bytes) or is_picture(one)


def _stored(one: Any, name: str) -> Stored:
    if isinstance(one, Stored):
        return one
    if isinstance(one, np.ndarray) and one.dtype == bool:
        one = one.astype(np.uint8) * 255
    return Stored(one, str(one) if isinstance(one, Path) else name)


def _raw(value: Any) -> bytes | None:
    """Return the packed picture of a cell, alone or as the package datasets keeps it."""
    if isinstance(value, Mapping):
        value = value.get("bytes")
    return value if isinstance(value, bytes) and value else None


def _names_mask(name: str) -> bool:
    return any(word in name.lower() for word in _MASKS)


"""Which columns hold the text, the second text and the label: those that were named, else the usual ones."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from whence.core.errors import BadExamples, did_you_mean, short

ONE = ("text", "sentence", "review", "content")
TWO = (
    ("text", "pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "context"),
    ("question", "sentence"),
    ("question1", "question2"),
)
# Models with a query attend to the first text, so there the passage comes first.
PASSAGE_FIRST = (
    ("story", "question"),
    ("passage", "question"),
    ("context", "question"),
    ("tokens", "query"),
    *TWO,
)
LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "answer",
    "gold_label",
)
_SHOWN, _CELL = 5, 200  # rows to choose by, and characters of a cell
_ALLOWED = (
    f"{', '.join(ONE)}, tokens, or a pair such as premise and hypothesis. "
    "Name yours: text=..., --text COLUMN, or Columns on the page"
)


class UnknownColumns(BadExamples):
    """A table of which nobody can say which columns hold the texts, or that lacks one that was named.

    It has the names of the columns and the first rows, so that whoever is asked can choose.
    """

    def __init__(self, message: str, columns: Iterable[str]) -> None:
        super().__init__(message)
        self.columns = tuple(map(str, columns))
        self.first: tuple[tuple[str, ...], ...] = ()

    def with_rows(self, rows: Iterable[Mapping[str, Any]]) -> "UnknownColumns":
        """Return the error with the first rows, as texts that are cut where they are long."""
        some = list(islice(rows, _SHOWN))
        self.columns = tuple(dict.fromkeys([*self.columns, *(str(k) for row in some for k in row)]))
        self.first = tuple(tuple(_cell(row.get(one)) for one in self.columns) for row in some)
        return self


def _cell(value: Any) -> str:
    return "" if value is None else short(" ".join(str(value)[: 4 * _CELL].split()), _CELL)


def text_columns(
    row: Iterable[str],
    text: str | None,
    pair: str | None,
    file: str,
    two: Sequence[tuple[str, str]] = TWO,
) -> tuple[str, ...]:
    """Name the columns that hold the text, or the two texts: those asked for, else the usual ones."""
    row = list(row)
    if pair is not None and text is None:
        text = next((name for name in (*ONE, "tokens") if name in row and name != pair), "text")
    if text is not None:
        asked = (text,) if pair is None else (text, pair)
        return tuple(known(row, name, file) for name in asked)
    both = next((names for names in two if all(name in row for name in names)), None)
    if both is not None:
        return both
    # Spans of tokens fit the tokens, and a text only by chance.
    order = ("tokens", *ONE) if "rationale_spans" in row else (*ONE, "tokens")
    alone = next((name for name in order if name in row), None)
    if alone is None:
        has = ", ".join(map(str, row)) or "none"
        raise UnknownColumns(
            f"{file} has no column of texts; it has {has}. Allowed: {_ALLOWED}.", row
        )
    return (alone,)


def known(row: Iterable[str], name: str, file: str) -> str:
    """Return the name of a column, or say that there is none of that name."""
    has = [str(one) for one in row]
    if name not in has:
        raise UnknownColumns(
            f"{file} has no column {name!r}; it has {', '.join(has) or 'none'}.{did_you_mean(name, has)}",
            has,
        )
    return name


def label_column(rows: Sequence[Mapping[str, Any]], taken: Collection[str]) -> str | None:
    """Guess the column of labels: the first of the usual names that holds one name or number a row."""
    for name in LABELS:
        if name not in taken and any(name in row for row in rows):
            said = [row.get(name) for row in rows]
            if all(one is None or isinstance(one, str | int | float) for one in said):
                return name
    return None


def label_of(where: str, name: str, value: Any) -> str | None:
    """Return a label as text; None where there is none."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str | int | float):
        return str(value)
    raise BadExamples(
        f"{where}: the label in {name!r} is {str(value)[:40]!r} ({type(value).__name__}). "
        "Allowed: one name or number."
    )


"""One input of a data set: a text, a pair of texts or a picture, with a label and what people marked."""

from dataclasses import dataclass

from whence.data.sets import pictures
from whence.data.sets.rationale import Span


@dataclass(frozen=True, slots=True)
class Example:
    """One input, and what people said about it."""

    given: str | tuple[str, str] | pictures.Stored
    label: str | None = None
    rationale: tuple[Span, ...] | None = None  # None: nobody was asked
    mask: pictures.Outlined | None = None  # of a picture: what a person outlined

    @property
    def seen(self) -> bool:
        """Whether it is a picture."""
        return isinstance(self.given, pictures.Stored)

    @property
    def texts(self) -> tuple[str, ...]:
        """Its text, or both of a pair; none of a picture."""
        if isinstance(self.given, pictures.Stored):
            return ()
        return (self.given,) if isinstance(self.given, str) else self.given


"""The mask of a picture over the pixels that the model sees: resized and cut as the picture was, but not blurred."""

from typing import Any

import numpy as np

from whence.core.errors import BadPicture
from whence.data.sets.pictures import Outlined
from whence.data.vision.image import opened
from whence.stats.segmentation import GROUND, OBJECT, UNSAID

Mask = np.ndarray[Any, np.dtype[np.int8]]
_NEAREST = 0  # PIL's number for it
_SIDES = {1: OBJECT, 2: GROUND, 3: UNSAID}  # of a trimap


def mask_of(outlined: Outlined) -> Mask:
    """Unpack a mask, (height, width): 1 on the object, 0 on the ground, -1 where nobody said."""
    name = outlined.picture.name
    grey = np.asarray(opened(outlined.picture, name))[:, :, 0]
    if not outlined.trimap:
        # Half-way between dark and light is where an outline that was smoothed lies.
        return np.asarray(2 * grey.astype(np.int16) > max(int(grey.max()), 1), dtype=np.int8)
    if not set(np.unique(grey).tolist()) <= set(_SIDES):
        raise BadPicture(
            f"{name!r} is not a trimap: it has the values {np.unique(grey)[:6].tolist()}. Allowed: 1 (object), "
            "2 (ground) and 3 (border)."
        )
    table = np.zeros(4, dtype=np.int8)
    table[list(_SIDES)] = list(_SIDES.values())
    return np.asarray(table[grey])


def fitted(outlined: Outlined, processor: Any) -> Mask:
    """Return the mask over the pixels that the model sees: the processor cuts it as it cuts the picture."""
    from PIL import Image

    raw = (mask_of(outlined) + 1).astype(np.uint8)
    done = processor(
        images=Image.fromarray(np.stack([raw] * 3, 2)),
        resample=_NEAREST,
        do_rescale=False,
        do_normalize=False,
        do_convert_rgb=False,
        return_tensors="np",
    )
    seen = np.asarray(done["pixel_values"])[0, 0]
    return np.asarray(np.round(seen).astype(np.int8) - 1)
