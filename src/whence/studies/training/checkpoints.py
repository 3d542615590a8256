"""A training on disk after every epoch: what is named in state.json is there whole, whenever the process dies."""

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
from whence.core.io import write_text

Tensors = dict[str, Tensor]

STATE = "state.json"
FIRST_WEIGHTS = "first weights"
_VERSION = 1
_HASH = re.compile(r" \([0-9a-f]{16}\)$|^blake2b.*$")


class Kept:
    """The folder of one training. `about` says which: recipe, data and first weights."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self._folder = folder
        self._about = json.loads(json.dumps(about))
        self._files: dict[str, str] = {}

    def start(self) -> dict[str, Any] | None:
        """Make the folder, or read how far an earlier run came: the state that it saved."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = (self._folder / STATE).read_text(encoding="utf-8")
        except FileNotFoundError:
            self._say({"history": [], "best_epoch": None})
            return None
        except OSError as error:
            raise CannotWrite(
                f"Cannot keep the training in {str(self._folder)!r}: {error.strerror or error}. "
                "Choose a folder that you may write to."
            ) from None
        try:
            found = json.loads(text)
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']}")
            about, self._files = found["about"], dict(found["files"])
            state = dict(found["state"])
        except (ValueError, KeyError, TypeError) as error:
            raise CannotRead(
                f"{str(self._folder / STATE)!r} is not the state of a training ({error}). Delete the folder "
                f"{str(self._folder)!r} to start anew."
            ) from None
        if about != self._about:
            raise BadParameter(
                f"The folder {str(self._folder)!r} keeps another training: {difference(about, self._about)}. Give "
                "the settings it was begun with to go on, or delete the folder to start anew."
            )
        return state

    def save(self, state: Mapping[str, Any], last: Tensors, best: Tensors | None) -> None:
        """Keep the weights and the optimiser after an epoch; `best` where this epoch is the best so far."""
        epoch = len(state["history"])
        try:
            self._files["last"] = self._written(f"last-{epoch}.safetensors", last)
            if best is not None:
                self._files["best"] = self._written(f"best-{epoch}.safetensors", best)
            self._say(state)
            # What nothing names any more, and what a killed run left behind.
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
            found: Tensors = load_file(path, device=str(device))
            return found
        except (OSError, SafetensorError) as error:
            raise CannotRead(
                f"Cannot read {str(path)!r} ({error}). Delete the folder {str(self._folder)!r} to start anew."
            ) from None

    def _say(self, state: Mapping[str, Any]) -> None:
        whole = {"version": _VERSION, "about": self._about, "state": state, "files": self._files}
        write_text(self._folder / STATE, json.dumps(whole, indent=1) + "\n")

    def _written(self, name: str, tensors: Tensors) -> str:
        """Write a file under another name, and rename it when it is on the disk."""
        temporary = self._folder / f"{name}.part"
        # Copies, because weights may share memory, which a file of safetensors cannot say.
        whole = torch.contiguous_format
        copies = {k: v.detach().cpu().clone(memory_format=whole) for k, v in tensors.items()}
        save_file(copies, temporary)
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(self._folder / name)
        return name


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Say what is not the same, setting by setting."""
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    # Other settings mean other weights: naming those as well would say it twice.
    names = [name for name in names if name != FIRST_WEIGHTS] or names
    return "; ".join(_change(name, theirs.get(name), ours.get(name)) for name in names)


def _change(name: str, was: Any, now: Any) -> str:
    # How things are told apart is nothing to read.
    was, now = (_HASH.sub("", one) if isinstance(one, str) else one for one in (was, now))
    return f"other {name}" if was == now else f"{name} was {was!r}, now {now!r}"
