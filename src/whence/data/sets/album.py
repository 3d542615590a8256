"""A folder of pictures, here or elsewhere: one folder for each class, or pictures alone.

A mask lies beside its picture, as NAME_mask.png, or in a folder `masks` beside a folder `images`, under the same
name.
"""

from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from whence.core.errors import BadExamples
from whence.data.sets.address import Folder
from whence.data.sets.pictures import ENDINGS, TRIMAP, Found, Outlined, Stored
from whence.data.sets.stream import Unreadable


def holds_pictures(folder: Folder) -> bool:
    """Say whether a folder holds pictures, and no table of what else is to be read about them."""
    files = [PurePosixPath(name) for name in folder.files()]
    tables = any(one.stem == "metadata" for one in files)
    return not tables and any(one.suffix.lower() in ENDINGS for one in files)


def pictures_in(folder: Folder) -> list[Found]:
    """Find the pictures of a folder, in the order of their names; one that cannot be there is an error."""
    found = []
    for one in stream(folder):
        if isinstance(one, Unreadable):
            raise BadExamples(one.why)
        found.append(one)
    return found


def stream(folder: Folder) -> Iterator[Found | Unreadable]:
    """Yield the pictures of a folder, in the order of their names."""
    files = folder.files()
    root = "images/" if any(name.startswith("images/") for name in files) else ""
    masks = "masks/" if root and any(name.startswith("masks/") for name in files) else None
    names = set(files)
    inside = [name.removeprefix(root) for name in files if name.startswith(root)]
    own = [name for name in inside if _is_picture(folder, root + name)]
    if not own:
        raise BadExamples(
            f"The folder {folder.name!r} has no pictures ({', '.join(sorted(ENDINGS))}). Give one with a folder of "
            "pictures for each class, or with pictures alone."
        )
    for name in own:
        path = PurePosixPath(name)
        beside = _mask_beside(root, path) if masks is None else _mask_among(masks, path)
        mask = next((one for one in beside if one in names), None)
        try:
            picture = Stored(folder.place(root + name), name)
            drawn = mask and Stored(folder.place(mask), PurePosixPath(mask).name)
        except BadExamples as error:
            yield Unreadable(name, str(error))
            continue
        label = path.parts[0] if len(path.parts) > 1 else None
        outlined = Outlined(drawn, masks is None and TRIMAP in str(mask)) if drawn else None
        yield Found(picture, label, outlined)


def _is_picture(folder: Folder, name: str) -> bool:
    path = PurePosixPath(name)
    if path.suffix.lower() in ENDINGS:
        return not path.stem.endswith(("_mask", f"_{TRIMAP}"))
    return folder.is_linked_folder(name)  # what lies behind it would go missing without a word


def _mask_beside(root: str, path: PurePosixPath) -> Collection[str]:
    return [f"{root}{path.with_name(f'{path.stem}_{kind}.png')}" for kind in ("mask", TRIMAP)]


def _mask_among(masks: str, path: PurePosixPath) -> Collection[str]:
    own = (path, path.with_suffix(".png"), path.with_name(f"{path.stem}_mask.png"))
    return [f"{masks}{one}" for one in own]
