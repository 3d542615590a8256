"""Tiny float64 models of four architectures with any output head, as explainers, and their own raw outputs."""

from typing import Any

import torch
import transformers as hf

import whence
from tests import zoo
from tests.unit.small_tokenizers import wordpiece
from whence.explain.explainer import Explainer

_SHAPE = {
    "vocab_size": 260, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": 72, "pad_token_id": 0,
}  # fmt: skip
ARCHITECTURES = ("bert", "roberta", "deberta-v2", "distilbert")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
NLI = ("contradiction", "neutral", "entailment")


def _config(name: str, labels: tuple[str, ...]) -> Any:
    named = {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}
    more: dict[str, Any] = named if labels else {}
    if name == "bert":
        return hf.BertConfig(**_SHAPE, **more)
    if name == "roberta":
        return hf.RobertaConfig(**_SHAPE, type_vocab_size=2, bos_token_id=2, eos_token_id=3, **more)
    if name == "deberta-v2":
        return hf.DebertaV2Config(
            **_SHAPE, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, type_vocab_size=2,
            **more,
        )  # fmt: skip
    return hf.DistilBertConfig(
        vocab_size=260, dim=24, hidden_dim=32, n_layers=2, n_heads=3, max_position_embeddings=72, pad_token_id=0,
        **more,
    )  # fmt: skip


def explainer(
    name: str, head: str, labels: tuple[str, ...] = (), tokenizer: Any = None
) -> Explainer:
    """Return an explainer of a tiny model: `head` is the end of its class's name in transformers' Auto classes."""
    kind = getattr(hf, f"AutoModelFor{head}")
    model = zoo.seeded(lambda: kind.from_config(_config(name, labels)), 7).double().eval()
    return whence.load(model, tokenizer=tokenizer or wordpiece())


def run_model(given: Explainer, *texts: str) -> Any:
    """Return what the model itself gives for a text or a pair, called as its users call it."""
    encoded = given.tokenizer(*texts, return_tensors="pt")
    kept = {name: value for name, value in encoded.items() if name in given.loaded.forward_keywords}
    with torch.no_grad():
        return given.model(**kept)
