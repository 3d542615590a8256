"""Word vectors to start from: of a text file, or of a model's own table."""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.errors import BadExamples, BadTokenizer, UnknownModel
from whence.core.seed import generator
from whence.models import load


@dataclass(frozen=True)
class Vectors:
    """A row for every word; those that nobody knows are drawn, as far spread as the others."""

    rows: np.ndarray[Any, Any]  # (words, size)
    known: int
    name: str

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return int(self.rows.shape[1])

    def __str__(self) -> str:
        return f"{self.known} of {len(self.rows)} words have a vector in {self.name}; the others were drawn."


def vectors_for(words: Sequence[str], source: str | Path, seed: int) -> Vectors:
    """Find a vector for each of `words`.

    `source` is a text file with a word and its numbers in every line (as GloVe and fastText write them), or a
    transformers model: there a word's vector is the mean of its pieces' rows in the table of input embeddings.
    """
    path = Path(source)
    found = _of_file(path, words) if path.is_file() else _of_model(source, words)
    if not found:
        raise BadExamples(
            f"{str(source)!r} has a vector for none of the {len(words)} words of the training examples. "
            "Is it of another language, or in another case?"
        )
    known = np.stack(list(found.values()))
    drawn = generator("vectors of unknown words", seed).standard_normal(
        (len(words), known.shape[1])
    )
    rows = drawn * known.std()
    for place, word in enumerate(words):
        rows[place] = found.get(word, rows[place])
    return Vectors(rows, len(found), path.name)


def _of_file(path: Path, words: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    wanted, found, size = set(words), {}, None
    try:
        for number, fields in _lines(path):
            if number == 1 and len(fields) == 2:
                continue  # fastText: how many words and numbers there are
            size = len(fields) - 1 if size is None else size
            # A few words of large collections hold spaces themselves.
            word = " ".join(fields[:-size])
            if word not in wanted:
                continue
            try:
                found[word] = np.array(fields[-size:], dtype=np.float64)
            except ValueError:
                found[word] = np.array([np.nan])
            if len(fields) <= size or not np.isfinite(found[word]).all():
                raise BadExamples(
                    f"{path.name}, line {number}: {len(fields) - 1} fields after the word, not {size} numbers. Give "
                    "a file with a word and its vector in every line."
                )
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise BadExamples(
            f"Cannot read the vectors in {str(path)!r} ({error}). Give a text file in UTF-8 with a word and its "
            "numbers in every line."
        ) from None
    return found


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as stream:
        for number, line in enumerate(stream, 1):
            fields = line.rstrip().split(" ")
            if len(fields) > 1:
                yield number, fields


def _of_model(source: str | Path, words: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    try:
        loaded = load(source, device="cpu", dtype="float32")
    except UnknownModel as error:
        raise UnknownModel(
            f"There are no word vectors to be had from {str(source)!r}: it is no text file, and no model. {error}"
        ) from None
    table = getattr(loaded.model.get_input_embeddings(), "weight", None)
    if table is None:
        raise UnknownModel(
            f"{str(source)!r} has no table of input embeddings to take vectors from."
        )
    if loaded.tokenizer is None:
        raise BadTokenizer(
            f"{str(source)!r} has no tokenizer, so nobody knows which of its rows belong to a word."
        )
    rows = table.detach().double().numpy()
    # With a space before it, as a word stands in a text: many tokenizers have other pieces for its beginning.
    pieces = loaded.tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    unknown = loaded.tokenizer.unk_token_id
    return {
        word: rows[ids].mean(0)
        for word, ids in zip(words, pieces, strict=True)
        if any(one != unknown for one in ids)
    }
