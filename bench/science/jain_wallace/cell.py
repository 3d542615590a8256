"""One cell of Jain & Wallace's table: a model built, trained and measured for a data set, encoder and seed.

    python -m bench.science.jain_wallace.cell NAME [--work DIR] [--out DIR] [--device D] [--limit N]

NAME is such as sst-bilstm-tanh-random-0. The model is trained by the authors' recipe and measured on the test split;
the result is one JSON file, which is there whole or not at all.
"""

import argparse
import gzip
import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.science.jain_wallace.measures import build_subject, measure_model, round_numbers

import whence
from whence.core.files import write_text
from whence.data.dataset import read_dataset, resolve_label_indices
from whence.data.example import Example
from whence.models.rnn import AttentiveConfig, build_word_tokenizer, initialise_model
from whence.studies.training.fit import fit
from whence.studies.training.recipe import RECIPES
from whence.studies.training.train import CorpusSplit

ROOT = Path(__file__).resolve().parents[3]
WORK = ROOT / "build" / "science" / "jain_wallace"
EMBEDDING = 300  # as wide as fastText and GloVe, which the authors start from


@dataclass(frozen=True)
class Cell:
    """Setting of one training."""

    data: str
    encoder: str
    attention: str
    vectors: str
    seed: int

    @classmethod
    def of(cls, name: str) -> "Cell":
        """Return the cell of a name."""
        data, encoder, attention, vectors, seed = name.split("-")
        return cls(data, encoder, attention, vectors, int(seed))

    def __str__(self) -> str:
        return f"{self.data}-{self.encoder}-{self.attention}-{self.vectors}-{self.seed}"


def sample_evenly(rows: Sequence[Any], limit: int | None) -> list[Any]:
    """Take so many rows, evenly spaced: they may be sorted by length."""
    if limit is None or limit >= len(rows):
        return list(rows)
    return [rows[i] for i in np.linspace(0, len(rows) - 1, limit).astype(int)]


def build_model(cell: Cell, facts: Mapping[str, Any], folder: Path, pairs: bool) -> tuple[Any, Any]:
    """Return the untrained model and its tokenizer; the vocabulary is the data set's before filtering."""
    words = gzip.decompress((folder / "words.txt.gz").read_bytes()).decode().split("\n")[:-1]
    tokenizer = build_word_tokenizer([" ".join(words)])
    if len(tokenizer) != facts["vocabulary"]:
        raise SystemExit(
            f"{cell.data}: {len(tokenizer)} words, and the manifest says {facts['vocabulary']}"
        )
    vectors = None
    if cell.vectors != "random":
        vectors = np.load(folder / "vectors.npy").astype(np.float64)
        # The file has the four special tokens first, as the tokenizer has, and then its own order of words.
        places = {word: place for place, word in enumerate(words, start=4)}
        numbers = tokenizer.get_vocab()
        ordered = sorted(numbers, key=numbers.__getitem__)
        vectors = vectors[[places.get(word, numbers[word]) for word in ordered]]
    settings = facts["settings"]
    size = settings.get("embedding_size", EMBEDDING) if vectors is None else vectors.shape[1]
    labels = list(facts["labels"])
    config = AttentiveConfig(
        vocab_size=len(tokenizer),
        embedding_size=size,
        hidden_size=settings.get("hidden_size", 128),
        encoder=cell.encoder,
        attention=cell.attention,
        query=pairs,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    return initialise_model(config, cell.seed, vectors), tokenizer


def run_cell(cell: Cell, work: Path, device: str, limit: int | None) -> dict[str, Any]:
    """Train and measure one model."""
    started = time.perf_counter()
    facts = json.loads((work / "manifest.json").read_text())[cell.data]
    folder = work / cell.data
    splits: dict[str, list[Example]] = {
        split: sample_evenly(
            read_dataset(folder / f"{split}.jsonl.gz", question_first=True).examples, limit
        )
        for split in ("train", "dev", "test")
    }
    pairs = isinstance(splits["train"][0].given, tuple)
    model, tokenizer = build_model(cell, facts, folder, pairs)
    explainer = whence.load(model, tokenizer=tokenizer, device=device)
    labels = explainer.labels
    rows = {
        split: CorpusSplit(tuple(found), tuple(resolve_label_indices(found, labels))).rows(
            tokenizer
        )
        for split, found in splits.items()
        if split != "test"
    }
    changed = {k: v for k, v in facts["settings"].items() if k in ("epochs", "batch_size")}
    recipe = replace(RECIPES["query" if pairs else "text"], seed=cell.seed, **changed)
    fitted = fit(
        explainer.model,
        rows["train"],
        recipe,
        pad_id=explainer.loaded.pad_id,
        dev=rows["dev"],
    )
    training = time.perf_counter() - started
    found = measure_model(build_subject(explainer, splits["test"]), by_class=facts["by_class"])
    found["seconds"] = {"training": round(training, 1), **found["seconds"]}
    return {
        "cell": str(cell),
        "limit": limit,
        "vocabulary": facts["vocabulary"],
        "embedding_size": model.config.embedding_size,
        "train": len(splits["train"]),
        "dev": len(splits["dev"]),
        "best_epoch": fitted.best_epoch,
        "dev_score": fitted.best.score,
        **found,
        "provenance": collect_provenance(device),
    }


def collect_provenance(device: str) -> dict[str, str]:
    """Return machine, source digest and versions."""
    source = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        source.update(path.read_bytes())
    on = torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine()
    return {
        "machine": on,
        "source": source.hexdigest()[:16],
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "numpy": np.__version__,
    }


def main() -> None:
    """Compute a cell, unless it is stored."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cell", type=Cell.of)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=int, help="so many rows of each split, for a trial")
    options = parser.parse_args()
    out = options.out or options.work / "cells"
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    file = out / f"{options.cell}.json"
    if file.is_file():
        print(f"{file.name} is there")
        return
    found = round_numbers(run_cell(options.cell, options.work, options.device, options.limit))
    write_text(file, json.dumps(found) + "\n")
    print(f"{options.cell}: accuracy {found['performance']['accuracy']:.3f}, seconds {found['seconds']}")  # fmt: skip


if __name__ == "__main__":
    main()
