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
