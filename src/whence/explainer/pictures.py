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
