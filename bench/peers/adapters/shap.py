"""Adapter of shap: a transformers pipeline for `shap.Explainer`, as in its README."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import shap
import torch
import transformers
from bench.peers.adapter import Absent, Adapter, TokenScores


class LibraryAdapter(Adapter):
    """Adapter that explains the pipeline's probabilities by the partition algorithm, shap's default."""

    takes_lists = True
    explains = "probability"
    called = '`shap.Explainer(pipeline("text-classification", top_k=None))(texts)`'
    names = {"perturbation": "Partition"}

    def __init__(self, model: Any, tokenizer: Any, target: int) -> None:
        super().__init__(model, tokenizer, target)
        self._pipeline = transformers.pipeline(
            "text-classification", model=model, tokenizer=tokenizer, top_k=None
        )
        self._label = model.config.id2label[target]
        self._explainer = shap.Explainer(self._pipeline)

    def _explain(self, explainer: Any, texts: Any) -> list[TokenScores]:
        found = explainer(list(texts), silent=True)
        column = list(found.output_names).index(self._label)
        return [
            TokenScores([str(one) for one in tokens], np.asarray(values)[:, column].tolist())
            for tokens, values in zip(found.data, found.values, strict=True)
        ]

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        def build_case(algorithm: str) -> Callable[[], Any]:
            return lambda: self._explain(
                shap.Explainer(self._pipeline, algorithm=algorithm), [text]
            )

        return {"Partition": build_case("partition"), "Permutation": build_case("permutation")}

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        return self._explain(self._explainer, texts)

    def compute_rise(self, text: str) -> float | None:
        found = self._explainer([text], silent=True)
        column = list(found.output_names).index(self._label)
        with torch.no_grad():
            logits = self.model(**self.tokenizer(text, return_tensors="pt")).logits
        start = float(np.asarray(found.base_values).reshape(-1, len(found.output_names))[0, column])
        return float(logits.softmax(-1)[0, self.target]) - start

    def explain_pair(self, first: str, second: str) -> TokenScores:
        raise Absent("through a function and a separator of one's own")
