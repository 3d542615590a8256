"""TrainingCheckpoints: the state of a training on disk after every epoch, safe against a killed process.

Files are written under a temporary name, synced and renamed; state.json names only complete files.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from whence.core.errors import BadParameter, CannotRead, CannotWrite
from whence.core.files import write_text

Tensors = dict[str, Tensor]

STATE = "state.json"
FIRST_WEIGHTS = "first weights"
_VERSION = 1
_HASH = re.compile(r" \([0-9a-f]{16}\)$|^blake2b.*$")


class TrainingCheckpoints:
    """The checkpoint folder of one training; `about` identifies it: recipe, data and first weights."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self._folder = folder
        self._about = json.loads(json.dumps(about))
        self._files: dict[str, str] = {}

    def start(self) -> dict[str, Any] | None:
        """Create the folder, or return the state saved by an earlier run."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = (self._folder / STATE).read_text(encoding="utf-8")
        except FileNotFoundError:
            self._write_state({"history": [], "best_epoch": None})
            return None
        except OSError as error:
            raise CannotWrite(
                f"Cannot keep the training in {str(self._folder)!r}: {error.strerror or error}. "
                "Choose a folder that you may write to."
            ) from None
        try:
            record = json.loads(text)
            if record["version"] != _VERSION:
                raise ValueError(f"version {record['version']}")
            about, self._files = record["about"], dict(record["files"])
            state = dict(record["state"])
        except (ValueError, KeyError, TypeError) as error:
            raise CannotRead(
                f"{str(self._folder / STATE)!r} is not the state of a training ({error}). Delete the folder "
                f"{str(self._folder)!r} to start anew."
            ) from None
        if about != self._about:
            raise BadParameter(
                f"The folder {str(self._folder)!r} keeps another training: {describe_difference(about, self._about)}. Give "
                "the settings it was begun with to go on, or delete the folder to start anew."
            )
        return state

    def save(self, state: Mapping[str, Any], last: Tensors, best: Tensors | None) -> None:
        """Save weights and optimiser after an epoch; `best` if this epoch is the best so far."""
        epoch = len(state["history"])
        try:
            self._files["last"] = self._write_tensors(f"last-{epoch}.safetensors", last)
            if best is not None:
                self._files["best"] = self._write_tensors(f"best-{epoch}.safetensors", best)
            self._write_state(state)
            # Delete files of earlier epochs, and those that a killed run left behind.
            for path in self._folder.glob("*.safetensors*"):
                if path.name not in self._files.values():
                    path.unlink()
        except (OSError, SafetensorError) as error:
            raise CannotWrite(
                f"Cannot keep the training in {str(self._folder)!r}: {getattr(error, 'strerror', None) or error}. "
                "Make room, and run the same again: it goes on after the last epoch that was kept."
            ) from None

    def tensors(self, which: str, device: torch.device) -> Tensors:
        """Read the "last" or the "best" tensors."""
        path = self._folder / self._files[which]
        try:
            tensors: Tensors = load_file(path, device=str(device))
            return tensors
        except (OSError, SafetensorError) as error:
            raise CannotRead(
                f"Cannot read {str(path)!r} ({error}). Delete the folder {str(self._folder)!r} to start anew."
            ) from None

    def _write_state(self, state: Mapping[str, Any]) -> None:
        record = {"version": _VERSION, "about": self._about, "state": state, "files": self._files}
        write_text(self._folder / STATE, json.dumps(record, indent=1) + "\n")

    def _write_tensors(self, name: str, tensors: Tensors) -> str:
        """Write a file under a temporary name, sync it, and rename it."""
        temporary = self._folder / f"{name}.part"
        # Copies, because weights may share memory, which safetensors cannot store.
        layout = torch.contiguous_format
        copies = {k: v.detach().cpu().clone(memory_format=layout) for k, v in tensors.items()}
        save_file(copies, temporary)
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(self._folder / name)
        return name


def describe_difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Describe the differing settings of two trainings."""
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    # Other settings imply other first weights, which need not be named as well.
    names = [name for name in names if name != FIRST_WEIGHTS] or names
    return "; ".join(_describe_change(name, theirs.get(name), ours.get(name)) for name in names)


def _describe_change(name: str, was: Any, now: Any) -> str:
    # Digests are not shown.
    was, now = (_HASH.sub("", value) if isinstance(value, str) else value for value in (was, now))
    return f"other {name}" if was == now else f"{name} was {was!r}, now {now!r}"
