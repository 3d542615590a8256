"""Tiny image models (ViT, DeiT, DINOv2, BEiT, Swin, CLIP) with random weights, their pixel values and options."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from tests import zoo
from tests.unit import small_tokenizers

_WIDTH = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
_MLP = {**_WIDTH, "intermediate_size": 48}
_SIDES = {"image_size": 16, "patch_size": 4}
_VIT = {**_MLP, **_SIDES, "num_labels": 3}
_DINO = {**_WIDTH, **_SIDES, "num_labels": 3, "mlp_ratio": 2}


def _swin() -> Any:
    config = hf.SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=[1, 2], num_heads=[2, 4], window_size=4, num_labels=3
    )  # fmt: skip
    return hf.SwinForImageClassification(config)


def _clip() -> Any:
    text = {**_MLP, "vocab_size": 300, "max_position_embeddings": 16}
    ends = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    config = hf.CLIPConfig(
        text_config={**text, **ends}, vision_config={**_MLP, **_SIDES}, projection_dim=16
    )
    return hf.CLIPModel(config)


_MAKERS: dict[str, Callable[[], Any]] = {
    "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(**_VIT)),
    "deit": lambda: hf.DeiTForImageClassification(hf.DeiTConfig(**_VIT)),
    "deit-teacher": lambda: hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**_VIT)),
    "dinov2": lambda: hf.Dinov2ForImageClassification(hf.Dinov2Config(**_DINO)),
    "dinov2-registers": lambda: hf.Dinov2WithRegistersForImageClassification(
        hf.Dinov2WithRegistersConfig(**_DINO, num_register_tokens=2)
    ),
    "beit": lambda: hf.BeitForImageClassification(
        hf.BeitConfig(**_VIT, use_relative_position_bias=True)
    ),
    "swin": _swin,
    "clip": _clip,
}
PICTURES = tuple(_MAKERS)
# Tokens before the first patch: a class token, a distillation token, registers.
LEAD = dict.fromkeys(PICTURES, 1) | {"deit": 2, "deit-teacher": 2, "dinov2-registers": 3}
LABELS = ["a gripping film", "the plot is thin"]  # for the tokenizer below


def make(name: str, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """Build a model with random weights, large enough that nothing is nearly linear; biases too."""
    model = zoo.seeded(_MAKERS[name], seed)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn(weight.shape, generator=draw))
    return model.to(dtype).eval()


def pixels(name: str, pictures: int = 2, *, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return pixel values of several pictures."""
    side = 32 if name == "swin" else 16
    draw = torch.Generator().manual_seed(7)
    return torch.randn(pictures, 3, side, side, generator=draw, dtype=torch.float64).to(dtype)


def explain_options(name: str) -> dict[str, Any]:
    """Return what must be asked beside the picture."""
    return {"labels": LABELS} if name == "clip" else {}


def load_options(name: str) -> dict[str, Any]:
    """Return what must be given beside the model."""
    return {"tokenizer": small_tokenizers.wordpiece()} if name == "clip" else {}
