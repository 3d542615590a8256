"""Fixtures of the comparison tests: two models over a few texts, and reference figures by plain loops."""

import math
from itertools import product

import numpy as np
import pytest

import whence
from whence.core.types import Token
from whence.studies.compare.compare import compare

TEXTS = [
    "a gripping, beautifully acted film",
    "the plot is thin and the jokes are worse",
    "not a bad film at all",
    "dull, slow and far too long",
    "a warm and funny story that never tires",
    "i wanted to like it and could not",
]


@pytest.fixture(scope="session")
def base():
    return whence.load("reviews-base", dtype="float64")


@pytest.fixture(scope="session")
def tuned():
    return whence.load("reviews", dtype="float64")


@pytest.fixture(scope="session")
def found(base, tuned):
    return compare(base, tuned, TEXTS)


def tokens(text, special=()):
    return tuple(
        Token(one, None, None, 0, special=one in special, id=place)
        for place, one in enumerate(text.split())
    )


# By plain loops


def jsd(p, q):
    total = 0.0
    for a, b in zip(p, q, strict=True):
        middle = (a + b) / 2
        total += a * math.log2(a / middle) / 2 if a else 0
        total += b * math.log2(b / middle) / 2 if b else 0
    return total


def measure_heads_by_loops(one, other, special, rows):
    """Return divergence, that of the rows read, special mass and entropy of both, in the order of Measured."""
    layers, heads, n, _ = one.shape
    divergence, decision = np.zeros((layers, heads)), np.zeros((layers, heads))
    mass, spread = np.zeros((2, layers, heads)), np.zeros((2, layers, heads))
    for layer, head in product(range(layers), range(heads)):
        each = [jsd(one[layer, head, i], other[layer, head, i]) for i in range(n)]
        divergence[layer, head] = sum(each) / n
        decision[layer, head] = sum(w * d for w, d in zip(rows, each, strict=True))
        for side, maps in enumerate((one, other)):
            for i in range(n):
                row = maps[layer, head, i]
                mass[side, layer, head] += sum(row[j] for j in range(n) if special[j]) / n
                bits = -sum(a * math.log2(a) for a in row if a)
                spread[side, layer, head] += bits / math.log2(n) / n
    return divergence, decision, mass, spread


def compute_edge_flows_by_loops(maps, root):
    """Return all edges with what they carry back from the root, by definition: half of it goes past a layer."""
    layers, heads, n, _ = maps.shape
    here, found = list(root), {}
    for layer in reversed(range(layers)):
        below = [here[j] / 2 for j in range(n)]
        for head, i, j in product(range(heads), range(n), range(n)):
            carried = here[i] / 2 * maps[layer, head, i, j] / heads
            found[layer, head, i, j] = carried
            below[j] += carried
        here = below
    return found


def select_counted_edges(inside, root, specials):
    """Return the edges that count, with what they carry."""
    every = compute_edge_flows_by_loops(inside.attention(), root)
    return {edge: own for edge, own in every.items() if specials or not inside.special[edge[3]]}


def load_sign_flipped_model():
    """Return the same encoder with the head's sign turned: it predicts the opposite, and attends alike."""
    turned = whence.load("reviews", dtype="float64")
    turned.model.classifier.weight.data.neg_()
    turned.model.classifier.bias.data.neg_()
    return turned
