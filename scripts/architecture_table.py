"""Which method works on which architecture: tiny models of each, every method tried, refusals by their reason."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import whence
from whence.core.errors import WhenceError
from whence.core.registry import Entry
from whence.methods import method

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests import galleries, zoo
from tests.few import FEW

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
    "deit": "DeiT",
    "deit-teacher": "DeiT with teacher",
    "dinov2": "DINOv2",
    "dinov2-registers": "DINOv2 with registers",
    "beit": "BEiT",
    "swin": "Swin",
    "clip": "CLIP",
    "bilstm": "BiLSTM",
    "cnn": "CNN",
    "average": "Average",
}
REASONS = {
    "a": "an encoder and a decoder: there is no single attention row that explains both",
    "b": "attends within windows and merges patches: there is no one map over the picture",
    "c": "one row of attention pools the tokens: there is no stack of maps to follow",
    "d": "an operation of the encoder has no rule",
}
# What a refusal says, and its letter.
_SAID = {
    "has an encoder and a decoder": "a",
    "within windows": "b",
    "pools its tokens by one row": "c",
    "has no rule for": "d",
}


def cell(architecture: str, entry: Entry) -> str:
    """Try a method on an architecture: a tick, or the letter of the reason why not."""
    try:
        found = _explained(architecture, entry)
    except WhenceError as error:
        letters = [letter for said, letter in _SAID.items() if said in str(error)]
        if not letters:
            raise
        return letters[0]
    assert all(torch.as_tensor(one.scores).isfinite().all() for one in found)
    return WORKS


def _explained(architecture: str, entry: Entry) -> list[whence.Explanation]:
    explainer, params = _explainer(architecture), FEW.get(entry.name, {})
    if architecture not in galleries.PICTURES:
        rows = zoo.rows(architecture, lengths=(7, 5))
        return explainer.explain(rows, method=entry.name, params=params)
    pixels = {"pixel_values": galleries.pixels(architecture, 1)}
    asked = galleries.asked(architecture)
    return explainer.explain([pixels], method=entry.name, params=params, **asked)


_made: dict[str, whence.Explainer] = {}


def _explainer(architecture: str) -> whence.Explainer:
    if architecture not in _made:
        seen = architecture in galleries.PICTURES
        model = galleries.make(architecture) if seen else zoo.make(architecture)
        _made[architecture] = whence.load(
            model, **(galleries.loading(architecture) if seen else {})
        )
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
