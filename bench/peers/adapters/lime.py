"""Adapter of lime: a function from texts to probabilities for `LimeTextExplainer`, as in its tutorials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from bench.peers.adapter import Adapter, TokenScores
from lime.lime_text import LimeTextExplainer

ROWS = 64  # texts that the function gives to the model at once; lime hands it all of them


class LibraryAdapter(Adapter):
    """Adapter that requests all words, with lime's own number of samples."""

    explains = "probability"
    called = "`LimeTextExplainer().explain_instance(text, probabilities, num_features=all)`"
    names = {"perturbation": "LimeTextExplainer"}

    def _predict(self, texts: Sequence[str]) -> Any:
        rows = []
        for start in range(0, len(texts), ROWS):
            some = list(texts[start : start + ROWS])
            encoded = self.tokenizer(some, return_tensors="pt", padding=True)
            with torch.no_grad():
                rows.append(self.model(**encoded).logits.softmax(-1))
        return torch.cat(rows).numpy()

    def _explain(self, text: Any, label: int) -> TokenScores:
        found = LimeTextExplainer(random_state=0).explain_instance(
            text, self._predict, labels=(label,), num_features=len(text.split())
        )
        pairs = found.as_list(label=label)
        return TokenScores([word for word, _ in pairs], [float(score) for _, score in pairs])

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        return {"LimeTextExplainer": lambda: self._explain(text, self.target)}

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        return [self._explain(text, self.target) for text in texts]

    def explain_list(self, texts: Sequence[str]) -> Any:
        return LimeTextExplainer().explain_instance(list(texts), self._predict)

    def explain_wrong_target(self, text: str) -> Any:
        return self._explain(text, 99)
