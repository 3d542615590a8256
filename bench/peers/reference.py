"""Reference values for the peers' checks: explained function, integrated gradients, leave-one-out, float64.

All in float64, on a copy of the model.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

STEPS = 96  # of the reference, by Gauss's rule
ROWS = 32  # steps at a time
TINY = 1e-6  # the vector that one library starts from


class ReferenceModel:
    """The explained function of a model: from the embeddings of one text to the target's value."""

    def __init__(self, model: Any, tokenizer: Any, target: int, causal: bool) -> None:
        self._model = copy.deepcopy(model).double().eval()
        self._tokenizer = tokenizer
        self._target, self._causal = target, causal
        self._table = self._model.get_input_embeddings()

    def encode(self, text: str) -> Any:
        """Return the token ids of a text, special tokens included."""
        return self._tokenizer(text, return_tensors="pt")["input_ids"]

    def compute_value(self, embedded: Any, explains: str, token: int | None = None) -> Any:
        """Return the logit or probability of the target."""
        logits = self._model(inputs_embeds=embedded).logits
        row = logits[:, -1] if self._causal else logits
        column = self._target if token is None else token
        return (row.softmax(-1) if explains == "probability" else row)[:, column]

    def predict_next_token(self, text: str) -> int:
        """Return the most likely next token of the language model."""
        with torch.no_grad():
            return int(self._model(self.encode(text)).logits[0, -1].argmax())

    def build_baseline(self, ids: Any, baseline: str) -> Any:
        """Return the embeddings of a library's baseline."""
        ends = self._table(ids).detach()
        if baseline == "tiny":
            return torch.full_like(ends, TINY)
        if baseline == "zero":
            return torch.zeros_like(ends)
        kept = (
            self._tokenizer.unk_token_id if baseline == "unknown" else self._tokenizer.pad_token_id
        )
        other = torch.full_like(ids, kept)
        if baseline == "padding, special tokens stay":
            special = torch.isin(ids, torch.tensor(self._tokenizer.all_special_ids))
            other = torch.where(special, ids, other)
        return self._table(other).detach()

    def integrate_gradients(
        self, text: str, explains: str, baseline: str
    ) -> tuple[list[float], float]:
        """Return one score per token, and f(x) - f(baseline)."""
        ids = self.encode(text)
        token = self.predict_next_token(text) if self._causal else None
        end, start = self._table(ids).detach(), self.build_baseline(ids, baseline)
        total = torch.zeros_like(end)
        nodes, weights = (torch.tensor(one) for one in np.polynomial.legendre.leggauss(STEPS))
        for place, weight in zip(
            ((nodes + 1) / 2).split(ROWS), (weights / 2).split(ROWS), strict=True
        ):
            way = torch.lerp(start, end, place[:, None, None]).requires_grad_()
            (slopes,) = torch.autograd.grad(self.compute_value(way, explains, token).sum(), way)
            total += (slopes * weight[:, None, None]).sum(0)
        with torch.no_grad():
            rise = self.compute_value(end, explains, token) - self.compute_value(
                start, explains, token
            )
        return ((end - start) * total).sum(-1)[0].tolist(), float(rise)

    def leave_one_out(self, text: str) -> list[float]:
        """Return, for each word, the fall of the logit when the mask or unknown token replaces it."""
        ids = self.encode(text)
        token = self.predict_next_token(text) if self._causal else None
        special = torch.isin(ids[0], torch.tensor(self._tokenizer.all_special_ids))
        filler = self._tokenizer.mask_token_id
        filler = self._tokenizer.unk_token_id if filler is None else filler
        falls = []
        with torch.no_grad():
            whole = self.compute_value(self._table(ids), "logit", token)
            for place in torch.nonzero(~special)[:, 0].tolist():
                changed = ids.clone()
                changed[0, place] = filler
                falls.append(
                    float(whole - self.compute_value(self._table(changed), "logit", token))
                )
        return falls
