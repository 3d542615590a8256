"""Weights to start from: PyTorch's own distributions, drawn from a seed and from nothing else."""

from typing import Any

import numpy as np
import torch
from torch import nn

from whence.core.errors import BadParameter
from whence.core.seed import generator
from whence.models.attentive.config import AttentiveConfig
from whence.models.attentive.model import AttentiveForSequenceClassification


def fresh(
    config: AttentiveConfig, seed: int, vectors: Any = None
) -> AttentiveForSequenceClassification:
    """Make an untrained model.

    Embeddings are standard normal, or `vectors`, (vocab_size, embedding_size); padding is zero. All other weights lie
    evenly between plus and minus one over the root of how many numbers each output is a sum of.
    """
    with torch.random.fork_rng(devices=[]):  # PyTorch draws weights too, which are thrown away
        model = AttentiveForSequenceClassification(config)
    with torch.no_grad():
        for path, module in model.named_modules():
            for name, weight in module.named_parameters(recurse=False):
                drawn = generator("attentive", seed, f"{path}.{name}")
                if isinstance(module, nn.Embedding):
                    values = _vectors(config, vectors)
                    if values is None:
                        values = drawn.standard_normal(weight.shape)
                    values[config.pad_token_id] = 0
                else:
                    bound = _terms(module) ** -0.5
                    values = drawn.uniform(-bound, bound, weight.shape)
                weight.copy_(torch.from_numpy(values))
    model.eval()
    return model


def _terms(module: nn.Module) -> int:
    """Return how many numbers an output of the module is a sum of; of a recurrent one, PyTorch counts its state."""
    if isinstance(module, nn.LSTM):
        return module.hidden_size
    if isinstance(module, nn.Conv1d):
        return module.in_channels * module.kernel_size[0]
    assert isinstance(module, nn.Linear)
    return module.in_features


def _vectors(config: AttentiveConfig, given: Any) -> np.ndarray[Any, Any] | None:
    if given is None:
        return None
    values = np.array(given, dtype=np.float64)
    wanted = (config.vocab_size, config.embedding_size)
    if values.shape != wanted or not np.isfinite(values).all():
        raise BadParameter(
            f"vectors must be finite numbers of shape {wanted}: one row for each token of the vocabulary. "
            f"Got {values.shape}."
        )
    return values
