"""ferret: the explainers that its `Benchmark` runs, one text at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.peers.adapter import Adapter, Given
from ferret import Benchmark, GradientExplainer, IntegratedGradientExplainer, SHAPExplainer


class Own(Adapter):
    """The explainers themselves are called, whose scores are not yet normalised."""

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

    def _explain(self, explainer: Any, text: Any, **more: Any) -> Given:
        found = explainer(text, target=self.target, **more)
        return Given(list(found.tokens), [float(score) for score in found.scores])

    def methods(self, text: str) -> dict[str, Callable[[], Any]]:
        explainers = Benchmark(self.model, self.tokenizer).explainers
        return {one.NAME: lambda one=one: self._explain(one, text) for one in explainers}

    def gradient(self, texts: Sequence[str]) -> list[Given]:
        method = GradientExplainer(self.model, self.tokenizer)
        return [self._explain(method, text) for text in texts]

    def integrated(self, texts: Sequence[str], steps: int | None = None) -> list[Given]:
        method = IntegratedGradientExplainer(self.model, self.tokenizer)
        more = {"call_args": {"n_steps": steps}} if steps else {}
        return [self._explain(method, text, **more) for text in texts]

    def perturbation(self, texts: Sequence[str]) -> list[Given]:
        method = SHAPExplainer(self.model, self.tokenizer)
        return [self._explain(method, text) for text in texts]

    def several(self, texts: Sequence[str]) -> Any:
        return self._explain(IntegratedGradientExplainer(self.model, self.tokenizer), list(texts))

    def wrong(self, text: str) -> Any:
        return GradientExplainer(self.model, self.tokenizer)(text, target=99)
