"""Adapter of interpreto, as its documentation says: a class per method, `explain` of a text or a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import interpreto
import torch
from bench.peers.adapter import Adapter, TokenScores
from interpreto import Granularity

METHODS = (
    "Saliency", "IntegratedGradients", "SmoothGrad", "SquareGrad", "VarGrad", "GradientShap",
    "Occlusion", "Lime", "KernelShap", "Sobol",
)  # fmt: skip


class LibraryAdapter(Adapter):
    """Adapter that requests all tokens, special ones included: a sum needs them."""

    takes_lists = True
    baseline = "tiny"
    called = "`IntegratedGradients(model, tokenizer, granularity=ALL_TOKENS).explain(texts, targets=...)`"
    names = {
        "gradient": "Saliency",
        "integrated": "IntegratedGradients",
        "perturbation": "Occlusion",
    }
    metrics = {
        "Insertion": "interpreto.attributions.metrics:Insertion",
        "Deletion": "interpreto.attributions.metrics:Deletion",
    }

    def _explain(self, name: str, texts: Any, **more: Any) -> list[TokenScores]:
        kind = getattr(interpreto, name)
        method = kind(self.model, self.tokenizer, granularity=Granularity.ALL_TOKENS, **more)
        found = method.explain(texts, targets=torch.tensor([self.target] * len(texts)))
        return [
            TokenScores([str(one) for one in row.elements], row.attributions.flatten().tolist())
            for row in found
        ]

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        return {name: lambda name=name: self._explain(name, [text]) for name in METHODS}

    def explain_by_gradient(self, texts: Sequence[str]) -> list[TokenScores]:
        return self._explain("Saliency", list(texts))

    def integrate_gradients(
        self, texts: Sequence[str], steps: int | None = None
    ) -> list[TokenScores]:
        more = {} if steps is None else {"n_perturbations": steps}
        return self._explain("IntegratedGradients", list(texts), **more)

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        return self._explain("Occlusion", list(texts))

    def explain_pair(self, first: str, second: str) -> TokenScores:
        def explain(**more: Any) -> Any:
            encoded = self.tokenizer(
                first, second, return_tensors="pt", return_offsets_mapping=True
            )
            method = interpreto.IntegratedGradients(self.model, self.tokenizer, **more)
            return method.explain(encoded, targets=torch.tensor([self.target]))[0]

        usual = [str(one) for one in explain().elements]
        whole = explain(granularity=Granularity.ALL_TOKENS)
        remark = f"by word, its default: {', '.join(f'`{word}`' for word in usual)}"
        return TokenScores(
            [str(one) for one in whole.elements],
            whole.attributions.flatten().tolist(),
            remark=remark,
        )

    def explain_wrong_target(self, text: str) -> Any:
        return interpreto.Saliency(self.model, self.tokenizer).explain(
            [text], targets=torch.tensor([99])
        )
