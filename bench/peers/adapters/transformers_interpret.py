"""Adapter of transformers-interpret: its explainers of one text or a pair, by integrated gradients alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.peers.adapter import Adapter, TokenScores
from transformers_interpret import (
    PairwiseSequenceClassificationExplainer,
    SequenceClassificationExplainer,
)


class LibraryAdapter(Adapter):
    """Adapter of one text at a time; its integrated gradients are of the probability."""

    explains = "probability"
    baseline = "padding, special tokens stay"
    called = "`SequenceClassificationExplainer(model, tokenizer)(text, index=...)`"
    names = {"integrated": "SequenceClassificationExplainer"}

    def __init__(self, model: Any, tokenizer: Any, target: int) -> None:
        super().__init__(model, tokenizer, target)
        self._explainer = SequenceClassificationExplainer(model, tokenizer)

    def _explain(self, text: str, **more: Any) -> TokenScores:
        found = self._explainer(text, **({"index": self.target} | more))
        return TokenScores([token for token, _ in found], [float(score) for _, score in found])

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        return {"SequenceClassificationExplainer": lambda: self._explain(text)}

    def integrate_gradients(
        self, texts: Sequence[str], steps: int | None = None
    ) -> list[TokenScores]:
        return [self._explain(text, **({"n_steps": steps} if steps else {})) for text in texts]

    def explain_list(self, texts: Sequence[str]) -> Any:
        return self._explainer(list(texts), index=self.target)

    def explain_pair(self, first: str, second: str) -> TokenScores:
        explainer = PairwiseSequenceClassificationExplainer(self.model, self.tokenizer)
        found = explainer(first, second, index=self.target)
        return TokenScores([token for token, _ in found], [float(score) for _, score in found])

    def explain_wrong_target(self, text: str) -> Any:
        return self._explain(text, index=99)
