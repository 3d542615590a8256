"""Encoders: from the embeddings of a text to a state for each token, and a summary of the whole.

Each takes embeddings, (batch, tokens, features), and where the text's tokens are, (batch, tokens). What stands in
between or around (padding, the other text of a pair) is not there to it: the states are zero at these places.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whence.models.attentive.config import AttentiveConfig

Encoding = tuple[Tensor, Tensor]  # states (batch, tokens, width), summary (batch, width)


class BiLSTM(nn.Module):
    """One layer in both directions; the summary are the two final states."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True
        )

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> Encoding:
        """Run over the text alone, whatever it is padded with."""
        order = _own_first(own)
        lengths = own.sum(1)
        packed = pack_padded_sequence(
            _at(embedded, order),
            lengths.clamp(
                min=1
            ).cpu(),  # a text of nothing is given a step, and nothing of it is kept
            batch_first=True,
            enforce_sorted=False,
        )
        states, final = self._run(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=own.shape[1])
        kept = _at(states, order.argsort(1)).masked_fill(~own[..., None], 0)
        summary = final.transpose(0, 1).reshape(len(own), -1)
        return kept, summary.masked_fill(lengths[:, None] == 0, 0)

    def _run(self, packed: Any) -> tuple[Any, Tensor]:
        # cuDNN takes gradients in training mode only. There is no dropout, so nothing else depends on it.
        training, self.lstm.training = self.lstm.training, True
        try:
            with warnings.catch_warnings():
                # It also wants all weights in one piece, which they are not while others stand in for them.
                warnings.filterwarnings("ignore", "RNN module weights are not part of single")
                states, (final, _) = self.lstm(packed)
        finally:
            self.lstm.training = training
        return states, final


class Convolutions(nn.Module):
    """Filters of several widths side by side; the summary is the largest that each of them finds."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        filters = config.hidden_size // len(config.kernels)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.embedding_size, filters, size, padding=size // 2)
            for size in config.kernels
        )

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> Encoding:
        """Look at each token and its neighbours; outside of the text there are zeros."""
        order = _own_first(own)
        text = _at(embedded.masked_fill(~own[..., None], 0), order).transpose(1, 2)
        found = torch.cat([one(text) for one in self.filters], dim=1).relu().transpose(1, 2)
        # The authors find nothing at special tokens either.
        inside = own & ~special
        states = _at(found, order.argsort(1)).masked_fill(~inside[..., None], 0)
        return states, states.amax(1)


class Average(nn.Module):
    """Every token for itself; the summary is the mean.

    Of the text's own tokens: the authors' is over padding too, and so depends on the other inputs of a batch.
    """

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.projection = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> Encoding:
        """Give each token its state, without context."""
        states = self.projection(embedded).tanh().masked_fill(~own[..., None], 0)
        return states, states.sum(1) / own.sum(1, keepdim=True).clamp(min=1)


def encoder(config: AttentiveConfig) -> nn.Module:
    """Make the encoder that a configuration names."""
    return {"bilstm": BiLSTM, "cnn": Convolutions, "average": Average}[config.encoder](config)


def _own_first(own: Tensor) -> Tensor:
    """Return an order of places, (batch, tokens), in which the text comes first and stays in its order."""
    return (~own).to(torch.uint8).argsort(dim=1, stable=True)


def _at(values: Tensor, order: Tensor) -> Tensor:
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))
