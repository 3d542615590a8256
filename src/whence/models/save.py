"""Saving a model as a folder that `load` takes: there whole, or not yet there."""

import shutil
from pathlib import Path
from typing import Any

from whence.core.errors import CannotWrite
from whence.models.fetch import quiet

_LAST = "config.json"  # a folder without it is no model


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write safetensors, configuration and tokenizer into `folder`; whoever looks finds a whole model or none."""
    staging = folder / ".saving"
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        with quiet():
            tokenizer.save_pretrained(staging)
            model.save_pretrained(staging)
        # Weights are written for their owner alone; they get the mode of all other files.
        mode = (staging / _LAST).stat().st_mode
        (folder / _LAST).unlink(missing_ok=True)
        for path in sorted(staging.iterdir(), key=lambda path: path.name == _LAST):
            path.chmod(mode)
            path.replace(folder / path.name)
        staging.rmdir()
    except OSError as error:
        raise CannotWrite(
            f"Cannot save the model in {str(folder)!r}: {error.strerror or error}. Make room, or choose a folder "
            "that you may write to."
        ) from None
