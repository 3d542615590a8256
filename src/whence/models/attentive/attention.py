"""Attention of one row: a weight for every token of the input, and the mean of the states by these weights."""

from math import sqrt

import torch
from torch import Tensor, nn

from whence.models.attentive.config import AttentiveConfig


class Tanh(nn.Module):
    """Additive scores (Bahdanau et al. 2015): v · tanh(W h + b), with a query v · tanh(W h + b + U q + c)."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        half = config.width // 2
        self.states = nn.Linear(config.width, half)
        self.query = nn.Linear(config.width, half) if config.query else None
        self.score = nn.Linear(half, 1, bias=False)

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        inner = self.states(states)
        if self.query is not None and query is not None:
            inner = inner + self.query(query)[:, None]
        scores: Tensor = self.score(inner.tanh())
        return scores.squeeze(-1)


class Dot(nn.Module):
    """Scaled products: with the query, or with a vector that is learnt where there is none."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.scale = 1 / sqrt(config.width)
        self.vector = None if config.query else nn.Linear(config.width, 1, bias=False)

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        if self.vector is not None:
            learnt: Tensor = self.vector(states)
            return learnt.squeeze(-1) * self.scale
        assert query is not None
        return torch.matmul(states, query[..., None]).squeeze(-1) * self.scale


class Uniform(nn.Module):
    """The same score for all."""

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        return states.new_zeros(states.shape[:2])


class Attention(nn.Module):
    """Scores, weights, and the weighted mean."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        kinds = {"tanh": Tanh, "dot": Dot}
        self.scores = kinds[config.attention](config) if config.attention in kinds else Uniform()

    def forward(self, states: Tensor, may: Tensor, query: Tensor | None) -> Tensor:
        """Return the mean of the states, (batch, width), over those that may be attended to.

        The weights of all others are exactly zero; where there are no others, so is the mean.
        """
        scores = self.scores(states, query)[:, None, None, :]  # one head, one row
        hidden = ~may[:, None, None, :]
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(hidden, lowest), dim=-1).masked_fill(hidden, 0)
        return torch.matmul(weights, states[:, None]).flatten(1)
