"""The folder that a model is trained into: empty, begun, or finished; never somebody else's."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.core.errors import BadParameter, CannotWrite
from whence.training.kept import difference

TRAINING = "training"  # holds an unfinished training; gone when the model is saved
_OURS = {TRAINING, ".saving"}


def check_folder(folder: Path) -> None:
    """Find out before the work that nothing can be saved in `folder`."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        allowed = not there.is_dir() or os.access(there, os.W_OK | os.X_OK)
    except PermissionError:  # not even to look
        there, allowed = folder, False
    if not allowed:
        raise CannotWrite(
            f"Cannot save a model in {str(folder)!r}: no permission. Choose a place that you may write to."
        )
    if not there.is_dir():
        raise CannotWrite(
            f"Cannot save a model in {str(folder)!r}: {str(there)!r} is a file. Give the name of a folder."
        )
    if folder.is_dir() and _record(folder) is None:
        others = sorted(path.name for path in folder.iterdir() if path.name not in _OURS)
        if others and not (folder / TRAINING).is_dir():
            raise CannotWrite(
                f"The folder {str(folder)!r} holds something else ({', '.join(others[:3])}). Give a new or an empty "
                "folder."
            )


def finished(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of a training that ended in `folder`, None where none did; another one is refused."""
    record = _record(folder)
    if record is None:
        return None
    known = {name: record.get(name) for name in wanted}
    if known != wanted:
        raise BadParameter(
            f"The folder {str(folder)!r} holds another model: {difference(known, wanted)}. Give another folder, or "
            "delete this one."
        )
    return record


def _record(folder: Path) -> dict[str, Any] | None:
    """Read what the configuration says about the training, if it is one of ours."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(found, dict) and found.get("model_type") == "attentive"
    record = found.get("training") if ours else None
    return record if isinstance(record, dict) and "learning_rate" in record else None
