"""Word vectors for initial embeddings, from a text file or a model's embedding table."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.errors import BadExamples, BadTokenizer, UnknownModel
from whence.core.seed import build_generator
from whence.models.load import load_model


@dataclass(frozen=True)
class WordVectors:
    """A vector for every word; unknown words have random ones with the same spread."""

    rows: np.ndarray[Any, Any]  # (words, size)
    known: int
    name: str

    @property
    def size(self) -> int:
        """The number of dimensions."""
        return int(self.rows.shape[1])

    def __str__(self) -> str:
        return f"{self.known} of {len(self.rows)} words have a vector in {self.name}; the others were drawn."


def load_vectors(words: Sequence[str], source: str | Path, seed: int) -> WordVectors:
    """Load a vector for each of `words`.

    `source` is a text file with a word and its numbers in every line (as GloVe and fastText write them), or a
    transformers model: there a word's vector is the mean of its pieces' rows in the table of input embeddings.
    """
    path = Path(source)
    vectors = (
        _read_vectors_file(path, words) if path.is_file() else _read_model_vectors(source, words)
    )
    if not vectors:
        raise BadExamples(
            f"{str(source)!r} has a vector for none of the {len(words)} words of the training examples. "
            "Is it of another language, or in another case?"
        )
    known = np.stack(list(vectors.values()))
    drawn = build_generator("vectors of unknown words", seed).standard_normal(
        (len(words), known.shape[1])
    )
    rows = drawn * known.std()
    for place, word in enumerate(words):
        rows[place] = vectors.get(word, rows[place])
    return WordVectors(rows, len(vectors), path.name)


def _read_vectors_file(path: Path, words: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    requested, vectors, size = set(words), dict[str, np.ndarray[Any, Any]](), None
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                fields = line.rstrip().split(" ")
                # The header of fastText files has the number of words and dimensions.
                if len(fields) == 1 or (number == 1 and len(fields) == 2):
                    continue
                size = len(fields) - 1 if size is None else size
                # A few words of large collections contain spaces.
                word = " ".join(fields[:-size])
                if word not in requested:
                    continue
                try:
                    vectors[word] = np.array(fields[-size:], dtype=np.float64)
                except ValueError:
                    vectors[word] = np.array([np.nan])
                if len(fields) <= size or not np.isfinite(vectors[word]).all():
                    raise BadExamples(
                        f"{path.name}, line {number}: {len(fields) - 1} fields after the word, not {size} numbers. "
                        "Give a file with a word and its vector in every line."
                    )
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise BadExamples(
            f"Cannot read the vectors in {str(path)!r} ({error}). Give a text file in UTF-8 with a word and its "
            "numbers in every line."
        ) from None
    return vectors


def _read_model_vectors(
    source: str | Path, words: Sequence[str]
) -> dict[str, np.ndarray[Any, Any]]:
    try:
        loaded = load_model(source, device="cpu", dtype="float32")
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
    # With a leading space, as within a text: many tokenizers split a word differently at the start.
    pieces = loaded.tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    unknown = loaded.tokenizer.unk_token_id
    return {
        word: rows[ids].mean(0)
        for word, ids in zip(words, pieces, strict=True)
        if any(piece != unknown for piece in ids)
    }
