"""Preparation of the data sets of the paper's table, from the published files to one folder for the runs.

    python -m bench.science.jain_wallace.prepare [--data DIR] [--vectors MODEL] [--out DIR] [--only NAME,...]

For each data set: train, dev and test .jsonl.gz with the authors' cleaning, splits and filters (text, label, and
the question under "pair"), the words of the training split, and vectors for them, taken from MODEL's table of word
pieces. `manifest.json` says what there is, with sizes and with what is not as the authors had it. Needs spaCy and
scikit-learn (`pip install --group science`); the run does not.
"""

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bench.science.jain_wallace.corpora import CORPORA
from bench.science.jain_wallace.corpora.corpus import Corpus, Row

from whence.studies.training.vectors import load_vectors

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared"
WORK = ROOT / "build" / "science" / "jain_wallace"
SPECIAL = ("<PAD>", "<UNK>", "<SOS>", "<EOS>")


def describe_corpus(corpus: Corpus) -> dict[str, Any]:
    """Return name, sizes and settings of a data set."""
    sizes = {}
    for split, rows in corpus.splits.items():
        found = Counter(row.label for row in rows)
        sizes[split] = {
            "n": len(rows),
            "classes": {label: found[label] for label in corpus.labels if found[label]},
            "mean_length": round(sum(row.length for row in rows) / len(rows), 2),
        }
    return {
        "title": corpus.title,
        "labels": dict(corpus.labels),
        "by_class": corpus.by_class,
        "settings": dict(corpus.settings),
        "vocabulary": len(corpus.words) + len(SPECIAL),
        "sizes": sizes,
        "differs": corpus.differs,
    }


def format_row(row: Row) -> str:
    """Write a row as JSON."""
    pair = {} if row.pair is None else {"pair": row.pair}
    return json.dumps({"text": row.text, **pair, "label": row.label}, ensure_ascii=False) + "\n"


def write_compressed(path: Path, text: str) -> None:
    """Write a text so that the same text gives the same bytes."""
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def write_corpus(corpus: Corpus, folder: Path, vectors: Path | None, seed: int = 0) -> None:
    """Write the rows, the words and the vectors of a data set."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in corpus.splits.items():
        write_compressed(folder / f"{split}.jsonl.gz", "".join(map(format_row, rows)))
    write_compressed(folder / "words.txt.gz", "".join(f"{word}\n" for word in corpus.words))
    # The authors' bAbI embeddings are random: no vectors are needed.
    if vectors is not None and "embedding_size" not in corpus.settings:
        found = load_vectors([*SPECIAL, *corpus.words], vectors, seed).rows
        np.save(folder / "vectors.npy", found.astype(np.float16))


def main() -> None:
    """Prepare the chosen data sets; the others stay in the manifest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--vectors", type=Path, default=SHARED / "models" / "minilm-base")
    parser.add_argument("--out", type=Path, default=WORK)
    parser.add_argument("--only", default=",".join(CORPORA), help=", ".join(CORPORA))
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"there is no folder {options.data}; name the one with the data by --data")
    vectors = options.vectors if options.vectors.is_dir() else None
    options.out.mkdir(parents=True, exist_ok=True)
    manifest = options.out / "manifest.json"
    known: Mapping[str, Any] = json.loads(manifest.read_text()) if manifest.is_file() else {}
    for name in options.only.split(","):
        if name not in CORPORA:
            sys.exit(f"no data set {name!r}; there are {', '.join(CORPORA)}")
        corpus = CORPORA[name](options.data)
        write_corpus(corpus, options.out / name, vectors)
        known = {**known, name: describe_corpus(corpus)}
        manifest.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
        sizes = ", ".join(f"{split} {one['n']}" for split, one in known[name]["sizes"].items())
        print(f"{name}: {sizes}, vocabulary {known[name]['vocabulary']}", flush=True)
    if vectors is None:
        print(f"no vectors: there is no folder {options.vectors}")


if __name__ == "__main__":
    main()
