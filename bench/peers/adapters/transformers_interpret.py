"""transformers-interpret, as in its README."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.peers.adapter import Adapter, Given
from transformers_interpret import (
    PairwiseSequenceClassificationExplainer,
    SequenceClassificationExplainer,
)


class Own(Adapter):
    """One text at a time; its integrated gradients are of the probability."""

    explains = "probability"
    baseline = "padding, special tokens stay"
    called = "`SequenceClassificationExplainer(model, tokenizer)(text, index=...)`"
    names = {"integrated": "SequenceClassificationExplainer"}

    def __init__(self, model: Any, tokenizer: Any, target: int) -> None:
        super().__init__(model, tokenizer, target)
        self._explainer = SequenceClassificationExplainer(model, tokenizer)

    def _explain(self, text: str, **more: Any) -> Given:
        found = self._explainer(text, **({"index": self.target} | more))
        return Given([token for token, _ in found], [float(score) for _, score in found])

    def methods(self, text: str) -> dict[str, Callable[[], Any]]:
        return {"SequenceClassificationExplainer": lambda: self._explain(text)}

    def integrated(self, texts: Sequence[str], steps: int | None = None) -> list[Given]:
        return [self._explain(text, **({"n_steps": steps} if steps else {})) for text in texts]

    def several(self, texts: Sequence[str]) -> Any:
        return self._explainer(list(texts), index=self.target)

    def pair(self, first: str, second: str) -> Given:
        explainer = PairwiseSequenceClassificationExplainer(self.model, self.tokenizer)
        found = explainer(first, second, index=self.target)
        return Given([token for token, _ in found], [float(score) for _, score in found])

    def wrong(self, text: str) -> Any:
        return self._explain(text, index=99)
