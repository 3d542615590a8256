"""Adapter of ferret: the explainers that its `Benchmark` runs, one text at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.peers.adapter import Adapter, TokenScores
from ferret import Benchmark, GradientExplainer, IntegratedGradientExplainer, SHAPExplainer


class LibraryAdapter(Adapter):
    """Adapter that calls the explainers directly, whose scores are not yet normalised."""

    baseline = "padding, special tokens stay"
    called = "`IntegratedGradientExplainer(model, tokenizer)(text, target=...)`; all of `Benchmark`"
    names = {
        "gradient": "GradientExplainer",
        "integrated": "IntegratedGradientExplainer",
        "perturbation": "SHAPExplainer",
    }
    metrics = {
        "AOPC comprehensiveness": "ferret.evaluators.faithfulness_measures:AOPC_Comprehensiveness_Evaluation",
        "AOPC sufficiency": "ferret.evaluators.faithfulness_measures:AOPC_Sufficiency_Evaluation",
        "tau-LOO": "ferret.evaluators.faithfulness_measures:TauLOO_Evaluation",
    }

    def _explain(self, explainer: Any, text: Any, **more: Any) -> TokenScores:
        found = explainer(text, target=self.target, **more)
        return TokenScores(list(found.tokens), [float(score) for score in found.scores])

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        explainers = Benchmark(self.model, self.tokenizer).explainers
        return {one.NAME: lambda one=one: self._explain(one, text) for one in explainers}

    def explain_by_gradient(self, texts: Sequence[str]) -> list[TokenScores]:
        method = GradientExplainer(self.model, self.tokenizer)
        return [self._explain(method, text) for text in texts]

    def integrate_gradients(
        self, texts: Sequence[str], steps: int | None = None
    ) -> list[TokenScores]:
        method = IntegratedGradientExplainer(self.model, self.tokenizer)
        more = {"call_args": {"n_steps": steps}} if steps else {}
        return [self._explain(method, text, **more) for text in texts]

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        method = SHAPExplainer(self.model, self.tokenizer)
        return [self._explain(method, text) for text in texts]

    def explain_list(self, texts: Sequence[str]) -> Any:
        return self._explain(IntegratedGradientExplainer(self.model, self.tokenizer), list(texts))

    def explain_wrong_target(self, text: str) -> Any:
        return GradientExplainer(self.model, self.tokenizer)(text, target=99)
