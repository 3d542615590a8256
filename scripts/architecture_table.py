"""Which method works on which architecture: tiny models of each, every method tried, refusals by their reason.

ViT takes pictures, which `explain` does not take yet: there, methods that read a trace are run on one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import whence
from whence.capture import TargetSpec, trace
from whence.core.errors import WhenceError
from whence.core.registry import Entry
from whence.data import Batch
from whence.methods import is_reader, method

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests import zoo

WORKS = "✓"
TITLES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-R",
    "camembert": "CamemBERT",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "albert": "ALBERT",
    "modernbert": "ModernBERT",
    "deberta-v2": "DeBERTa-v2",
    "mpnet": "MPNet",
    "gpt2": "GPT-2",
    "llama": "Llama",
    "qwen3": "Qwen3",
    "gemma3": "Gemma 3",
    "bart": "BART",
    "t5": "T5",
    "vit": "ViT",
    "bilstm": "BiLSTM",
    "cnn": "CNN",
    "average": "Average",
}
REASONS = {
    "a": "an encoder and a decoder: there is no single attention row that explains both",
    "b": "asks the model again about changed texts; a picture cannot be given to `explain` yet",
    "c": "one row of attention pools the tokens: there is no stack of maps to follow",
    "d": "an operation of the encoder has no rule",
}
# What a refusal says, and its letter.
_SAID = {
    "has an encoder and a decoder": "a",
    "pools its tokens by one row": "c",
    "has no rule for": "d",
}


def cell(architecture: str, entry: Entry) -> str:
    """Try a method on an architecture: a tick, or the letter of the reason why not."""
    if architecture == "vit":
        return _on_pictures(entry)
    try:
        rows = zoo.rows(architecture, lengths=(7, 5))
        found = _explainer(architecture).explain(rows, method=entry.name)
    except WhenceError as error:
        letters = [letter for said, letter in _SAID.items() if said in str(error)]
        if not letters:
            raise
        return letters[0]
    assert all(torch.as_tensor(one.scores).isfinite().all() for one in found)
    return WORKS


def _on_pictures(entry: Entry) -> str:
    if not is_reader(entry):
        return "b"
    pixels = torch.randn(2, *zoo.PIXELS, generator=torch.Generator().manual_seed(0)).double()
    patches = (zoo.PIXELS[1] // 4) ** 2
    batch = Batch((), {"pixel_values": pixels}, torch.ones(2, patches + 1, dtype=torch.bool))
    spec = TargetSpec.parse(1, ("a", "b", "c"))
    seen = trace(_explainer("vit").model, batch, entry.facts["needs"], spec, "single_label")
    returned = entry.fn(seen)
    scores = returned[0] if isinstance(returned, tuple) else returned
    # One score per patch, and one for the class token where it has a place of its own.
    assert scores.shape in {(2, patches), (2, patches + 1)}
    assert scores.isfinite().all()
    return WORKS


_made: dict[str, whence.Explainer] = {}


def _explainer(architecture: str) -> whence.Explainer:
    if architecture not in _made:
        model = zoo.make_vit() if architecture == "vit" else zoo.make(architecture)
        _made[architecture] = whence.load(model)
    return _made[architecture]


def markdown() -> str:
    """Try all methods on all architectures, and return the table."""
    entries = sorted(
        method,
        key=lambda e: (e.facts["family"] == "baseline", e.facts["family"], e.name),
    )
    lines = ["| method | " + " | ".join(TITLES.values()) + " |", "|---|" + ":-:|" * len(TITLES)]
    used: set[str] = set()
    for entry in entries:
        cells = [cell(architecture, entry) for architecture in TITLES]
        used |= set(cells) - {WORKS}
        lines.append(f"| `{entry.name}` | " + " | ".join(cells) + " |")
    notes = [f"{letter}: {REASONS[letter]}." for letter in sorted(used)]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])
