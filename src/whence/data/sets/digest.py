"""The hash of an example: of what it says, and of nothing else, such as where it lies or what its file is called."""

import json
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np

from whence.data.sets.examples import Example
from whence.data.sets.pictures import Stored


def digest(facts: Any) -> str:
    """Return the hash of plain data: equal data have equal hashes, whatever the order of their names."""
    plain = json.dumps(
        facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return sha256(plain.encode()).hexdigest()


def given_digest(example: Example) -> str:
    """Return the hash of what is given to a model: a text, a pair of texts or a picture."""
    given = example.given
    if isinstance(given, Stored):
        return digest(["picture", *_seen(given)])
    return digest(["text", *example.texts])


def example_digest(example: Example, given: str | None = None) -> str:
    """Return the hash of an example: what is given, its label, and what people marked.

    `given` is the hash of what is given, where it is known: of a picture it takes a while.
    """
    spans, mask = example.rationale, example.mask
    return digest(
        [
            given or given_digest(example),
            example.label,
            None if spans is None else [[one.segment, one.start, one.end] for one in spans],
            None if mask is None else [*_seen(mask.picture), mask.trimap],
        ]
    )


def _seen(picture: Stored) -> list[Any]:
    """Return what tells a picture from others: the bytes of its file, or its pixels."""
    try:
        kept = picture.read()
        if isinstance(kept, Path):
            # A pipe would be waited for without end.
            if not kept.is_file():
                return ["no file", picture.name]
            with kept.open("rb") as stream:
                return ["file", file_digest(stream, "sha256").hexdigest()]
    except OSError:
        return ["unreadable", picture.name]
    if isinstance(kept, bytes | bytearray):
        return ["file", sha256(kept).hexdigest()]
    if isinstance(kept, str):
        return ["name", kept]
    if getattr(kept, "mode", None) == "P":
        kept = kept.convert("RGBA")  # the pixels are numbers of colours in a table of its own
    pixels = np.asarray(kept)
    return ["pixels", str(pixels.dtype), list(pixels.shape), sha256(pixels.tobytes()).hexdigest()]
