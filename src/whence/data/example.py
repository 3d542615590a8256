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
