"""Pictures of a data set, each with its label and the mask of what is on it. None is unpacked before its turn.

A folder has one folder for each class, or pictures alone. A mask lies beside its picture, as NAME_mask.png, or in a
folder `masks` beside a folder `images`, under the same name. A Parquet file has a column of packed pictures.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.errors import BadExamples
from whence.data.columns import LABELS, ONE, known, label_of
from whence.data.image import is_picture

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm"})
COLUMNS = ("image", "picture", "img", "photo", "jpeg", "jpg", "png")
_MASKS = ("mask", "trimap", "segmentation")
_TRIMAP = "trimap"


@dataclass(frozen=True, eq=False, repr=False)
class Stored:
    """One picture that can be read when it is wanted: a file, packed bytes, a PIL image or an array."""

    source: Any
    name: str

    def read(self) -> Any:
        """Return the picture as it is kept; `whence.data.image.opened` makes pixels of it."""
        return self.source

    def __repr__(self) -> str:
        # The same pictures in another order are the same data set: this must not tell where it lies in memory.
        given = self.source
        if isinstance(given, Path):
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


def is_folder(path: Path) -> bool:
    """Say whether this is a folder that holds pictures, and no table of what else is to be read about them."""
    if not path.is_dir():
        return False
    files = list(path.rglob("*"))
    tables = any(one.stem == "metadata" for one in files)
    return not tables and any(one.suffix.lower() in ENDINGS for one in files)


def in_folder(folder: Path) -> list[Found]:
    """Find the pictures of a folder, in the order of their names."""
    root, masks = folder, None
    if (folder / "images").is_dir():
        root = folder / "images"
        masks = folder / "masks" if (folder / "masks").is_dir() else None
    files = [path for path in sorted(root.rglob("*")) if path.suffix.lower() in ENDINGS]
    seen = set(files)
    found = []
    for path in files:
        if _is_mask(path):
            continue
        inside = path.relative_to(root)
        mask = _mask_beside(path, seen) if masks is None else _mask_among(masks / inside)
        label = inside.parts[0] if len(inside.parts) > 1 else None
        found.append(Found(Stored(path, str(inside)), label, mask))
    if not found:
        raise BadExamples(
            f"The folder {str(folder)!r} has no pictures ({', '.join(sorted(ENDINGS))}). Give one with a folder of "
            "pictures for each class, or with pictures alone."
        )
    return found


def in_rows(rows: Sequence[tuple[str, Mapping[str, Any]]], label: str | None) -> list[Found] | None:
    """Take the pictures of a table; None if no column holds any."""
    first = next(iter(rows))[1]
    column = picture_column(first)
    if column is None:
        return None
    mask = next((n for n in first if n != column and _names_mask(n) and _raw(first[n])), None)
    names = label_column(first, label)
    found = []
    for where, row in rows:
        raw = _raw(row.get(column))
        if raw is None:
            raise BadExamples(f"{where}: there is no picture in {column!r}. Take the row out.")
        said = None if names is None else label_of(where, names, row.get(names))
        drawn = None if mask is None else _raw(row.get(mask))
        own = row.get("name")
        name = own if isinstance(own, str) and own else where
        outlined = (
            None
            if drawn is None
            else Outlined(Stored(drawn, f"mask of {name}"), _TRIMAP in str(mask))
        )
        found.append(Found(Stored(raw, name), said, outlined))
    return found


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


def _is_mask(path: Path) -> bool:
    return path.stem.endswith(("_mask", f"_{_TRIMAP}"))


def _mask_beside(path: Path, seen: Iterable[Path]) -> Outlined | None:
    for suffix in ("_mask", f"_{_TRIMAP}"):
        mask = path.with_name(f"{path.stem}{suffix}.png")
        if mask in seen:
            return Outlined(Stored(mask, mask.name), _TRIMAP in suffix)
    return None


def _mask_among(path: Path) -> Outlined | None:
    for mask in (path, path.with_suffix(".png"), path.with_name(f"{path.stem}_mask.png")):
        if mask.is_file():
            return Outlined(Stored(mask, mask.name))
    return None
