"""Figures of single heads: how widely they attend, how much to special tokens, how much the target leans on them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.capture import Trace
from whence.flow.query import Bools
from whence.flow.weights import Floats
from whence.kernels import row_tiles


def entropy(maps: Floats) -> Floats:
    """Return the mean entropy of each head's rows as a share of the most there can be, (layers, heads).

    The most is that of attending equally to all keys of the row that any head of the layer attends to at all. A row
    with one such key has no choice and does not count; where no row has any, it is 0.
    """
    found = np.zeros(maps.shape[:2])
    for place, layer in zip(found, maps, strict=True):
        keys = open_keys(layer).sum(axis=-1)
        choice = keys > 1
        if not choice.any():
            continue
        most = np.log2(keys[choice])
        for head, one in enumerate(layer[:, choice]):
            place[head] = (_bits(_scaled(one)) / most).mean()
    return found


def open_keys(layer: Floats) -> Bools:
    """Say which keys each row may attend to, (tokens, tokens): those that any head of the layer attends to at all."""
    return np.asarray((layer > 0).any(axis=0))


_TINY = np.finfo(np.float64).tiny


def _bits(rows: Floats) -> Floats:
    """Return the entropy of distributions along the last axis, in bits."""
    wide = np.asarray(rows, dtype=np.float64)
    logs = np.log2(wide, out=np.zeros_like(wide), where=wide > 0)
    return np.asarray(-np.einsum("...j,...j->...", wide, logs))


def special_mass(maps: Floats, special: Bools) -> Floats:
    """Return the mean share of each head's attention that goes to special tokens, (layers, heads)."""
    chosen = np.flatnonzero(special)
    return np.stack([_mean_mass(layer[..., chosen]) for layer in maps])


def _mean_mass(part: Floats) -> Floats:
    return np.asarray(part.sum(axis=-1, dtype=np.float64).mean(axis=-1))


@torch.no_grad()
def gradient_importance(trace: Trace, row: int = 0) -> Floats:
    """Return |Σ over the map of A · dy/dA| of each head, (layers, heads) (Michel et al. 2019, arXiv:1905.10650).

    It is what the target would lose, to first order, if the head gave nothing. The authors differentiate the loss;
    here it is the target that is explained.
    """
    counts = [layer.heads for layer in trace.layers]
    found = np.zeros((len(counts), max(counts)))
    real = trace.real[row]
    for place, layer in zip(found, trace.layers, strict=True):
        total = torch.zeros(layer.heads, dtype=torch.float64)
        for rows in row_tiles(layer, trace.rows):
            product = layer.weights(rows)[row].double() * layer.weights_grad(rows)[row].double()
            total += product[:, real[rows]].sum((1, 2)).cpu()
        place[: layer.heads] = total.abs().numpy()
    return found


def jensen_shannon(a: Floats, b: Floats) -> Floats:
    """Return the Jensen-Shannon divergence along the last axis, in bits: 0 if equal, 1 if no entry is in common.

    Rows are scaled to add up to 1: where a part of the attention goes to no token, the rest is compared.
    """
    one, other = _scaled(a), _scaled(b)
    middle = (one + other) / 2
    return np.asarray(np.maximum(_bits(middle) - (_bits(one) + _bits(other)) / 2, 0.0))


def _scaled(rows: Floats) -> Floats:
    wide = np.asarray(rows, dtype=np.float64)
    return np.asarray(wide / np.maximum(wide.sum(axis=-1, keepdims=True), _TINY))


def divergence(a: Floats, b: Floats, root: Floats) -> tuple[Floats, Floats]:
    """Return how far the heads of two models are apart, (layers, heads): mean of all rows, and of those read."""
    mean, read = np.zeros(a.shape[:2]), np.zeros(a.shape[:2])
    weights = np.asarray(root, dtype=np.float64)
    for layer in range(a.shape[0]):
        for head in range(a.shape[1]):
            rows = jensen_shannon(a[layer, head], b[layer, head])
            mean[layer, head], read[layer, head] = rows.mean(), rows @ weights
    return mean, read


def thumbnails(maps: Floats, size: int = 48) -> NDArray[np.uint8]:
    """Return every map in little, (layers, heads, s, s) with s at most `size`: the largest weight of each patch.

    The largest and not the mean, so that a single strong weight can be seen; v = round(255 √a) keeps the small ones
    apart.
    """
    tokens = maps.shape[-1]
    small = min(size, tokens)
    starts = np.arange(small) * tokens // small
    found = np.zeros((*maps.shape[:2], small, small), dtype=np.uint8)
    for place, layer in zip(found, maps, strict=True):
        rows: NDArray[Any] = np.maximum.reduceat(layer, starts, axis=1)
        pooled = np.maximum.reduceat(rows, starts, axis=2).astype(np.float64)
        place[:] = np.rint(255 * np.sqrt(np.clip(pooled, 0, 1)))
    return found
