"""A task that means the same on another machine."""

from dataclasses import replace
from pathlib import Path

from whence.data.sets.examples import Example
from whence.data.sets.pictures import Outlined, Stored
from whence.run.task import Task


def portable(task: Task) -> Task:
    """Put the bytes of a file in the place of its path, wherever a picture or a mask is one."""
    return replace(
        task, items=tuple(replace(item, example=_carried(item.example)) for item in task.items)
    )


def _carried(example: Example) -> Example:
    given, mask = example.given, example.mask
    if isinstance(given, Stored):
        given = _read(given)
    if mask is not None:
        mask = Outlined(_read(mask.picture), mask.trimap)
    return replace(example, given=given, mask=mask)


def _read(picture: Stored) -> Stored:
    if not isinstance(picture.source, Path) or not picture.source.is_file():
        return picture
    try:
        return Stored(picture.source.read_bytes(), picture.name)
    except OSError:  # the worker finds the same, and makes a row of it that says so
        return picture
