"""The picture that an explanation is about, as the model sees it: kept with the explanation, and in its file."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.core.errors import BadParameter
from whence.data import Encoded
from whence.data.vision.image import LIMIT
from whence.report.picture.png import Pixels, decoded, encoded

Map = np.ndarray[Any, Any]  # (height, width)


def checked_size(size: Any) -> tuple[int, int]:
    """Refuse a size that no map can have."""
    sides = tuple(size) if isinstance(size, list | tuple | np.ndarray) else ()
    whole = [int(one) for one in sides if isinstance(one, int | np.integer) and one > 0]
    if len(sides) != 2 or len(whole) != 2 or whole[0] * whole[1] > LIMIT:
        raise BadParameter(
            f"A map's size is (height, width) in pixels, at most {LIMIT / 1e6:.0f} million of them. Got {size!r}."
        )
    return whole[0], whole[1]


@dataclass(frozen=True, eq=False)
class Shown:
    """A picture cut into patches."""

    grid: tuple[int, int]  # patches down and across
    pixels: Pixels  # (height, width, 3)
    name: str | None
    fine: Map | None = None  # a score for each pixel, where the method gives one

    @classmethod
    def of(cls, item: Encoded, fine: Map | None) -> "Shown | None":
        """Return the picture of an input, if it is one."""
        own = item.picture
        return None if own is None else cls(own.grid, own.shown, own.name, fine)

    @property
    def size(self) -> tuple[int, int]:
        """Its height and width in pixels."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says of the picture."""
        height, width = self.size
        png = encoded(self.pixels)
        return {
            "name": self.name,
            "width": width,
            "height": height,
            "grid": list(self.grid),
            "png": png,
        }

    def fine_to_dict(self) -> dict[str, Any]:
        """Return what a file says of the pixels' scores."""
        if self.fine is None:
            return {}
        values = np.ascontiguousarray(self.fine, dtype=self.fine.dtype.newbyteorder("<"))
        return {"pixels": b64encode(values.tobytes()).decode("ascii")}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any], own: Mapping[str, Any]) -> "Shown":
        """Read what `to_dict` and `fine_to_dict` wrote; what does not fit is a ValueError."""
        pixels = decoded(payload["png"])
        down, across = map(int, payload["grid"])
        size = (int(payload["height"]), int(payload["width"]))
        if pixels.shape[:2] != size or down < 1 or across < 1:
            raise ValueError(
                f"a picture of {pixels.shape}, {size} pixels and {down} x {across} patches"
            )
        fine = None
        if "pixels" in own:
            kind = np.dtype(own["dtype"]).newbyteorder("<")
            fine = np.frombuffer(b64decode(own["pixels"], validate=True), kind).reshape(size)
            fine = fine.astype(own["dtype"])
        name = payload.get("name")
        return cls((down, across), pixels, None if name is None else str(name), fine)
