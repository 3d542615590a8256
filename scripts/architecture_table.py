"""Table for docs/reference/architectures.md: every method run on a tiny model of each, refusals by reason."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import whence
from whence.core.errors import WhenceError
from whence.core.registry import Entry
from whence.methods import method

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests import image_models, zoo
from tests.reduced_params import FEW

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


def try_method(architecture: str, entry: Entry) -> str:
    """Return the cell of a method on an architecture: a tick, or the letter of a refusal."""
    try:
        found = _explain(architecture, entry)
    except WhenceError as error:
        letters = [letter for said, letter in _SAID.items() if said in str(error)]
        if not letters:
            raise
        return letters[0]
    assert all(torch.as_tensor(one.scores).isfinite().all() for one in found)
    return WORKS


def _explain(architecture: str, entry: Entry) -> list[whence.Explanation]:
    explainer, params = _load_explainer(architecture), FEW.get(entry.name, {})
    if architecture not in image_models.PICTURES:
        rows = zoo.rows(architecture, lengths=(7, 5))
        return explainer.explain(rows, method=entry.name, params=params)
    pixels = {"pixel_values": image_models.pixels(architecture, 1)}
    options = image_models.explain_options(architecture)
    return explainer.explain([pixels], method=entry.name, params=params, **options)


_explainers: dict[str, whence.Explainer] = {}


def _load_explainer(architecture: str) -> whence.Explainer:
    if architecture not in _explainers:
        takes_images = architecture in image_models.PICTURES
        model = image_models.make(architecture) if takes_images else zoo.make(architecture)
        _explainers[architecture] = whence.load(
            model, **(image_models.load_options(architecture) if takes_images else {})
        )
    return _explainers[architecture]


def render_table() -> str:
    """Run all methods on all architectures, and return the table."""
    entries = sorted(
        method,
        key=lambda e: (e.facts["family"] == "baseline", e.facts["family"], e.name),
    )
    lines = ["| method | " + " | ".join(TITLES.values()) + " |", "|---|" + ":-:|" * len(TITLES)]
    used: set[str] = set()
    for entry in entries:
        cells = [try_method(architecture, entry) for architecture in TITLES]
        used |= set(cells) - {WORKS}
        lines.append(f"| `{entry.name}` | " + " | ".join(cells) + " |")
    notes = [f"{letter}: {REASONS[letter]}." for letter in sorted(used)]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])
