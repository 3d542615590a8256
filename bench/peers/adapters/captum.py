"""Adapter of Captum: gradients, layer integrated gradients, feature ablation, and a list of its other methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from bench.peers.adapter import Adapter, TokenScores
from captum import attr


class LibraryAdapter(Adapter):
    """Adapter that encodes the texts itself, as Captum's users do."""

    takes_lists = True
    baseline = "padding, special tokens stay"
    called = "`LayerIntegratedGradients(forward, embeddings).attribute(ids, baselines=...)`, forward: the logits"
    names = {
        "gradient": "InputXGradient",
        "integrated": "LayerIntegratedGradients",
        "perturbation": "FeatureAblation",
    }
    metrics = {
        "infidelity": "captum.metrics:infidelity",
        "sensitivity_max": "captum.metrics:sensitivity_max",
    }

    def _encode(self, texts: Sequence[Any]) -> Any:
        pairs = [list(text) for text in texts] if isinstance(texts[0], tuple) else list(texts)
        return self.tokenizer(pairs, return_tensors="pt", padding=True)

    def _build_scores(self, encoded: Any, scores: Any) -> list[TokenScores]:
        rows = []
        for ids, own, row in zip(
            encoded["input_ids"], encoded["token_type_ids"], scores, strict=True
        ):
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
            rows.append(TokenScores(tokens, row.tolist(), own.tolist()))
        return rows

    def _run_embeddings(self, embedded: Any, mask: Any, types: Any) -> Any:
        return self.model(inputs_embeds=embedded, attention_mask=mask, token_type_ids=types).logits

    def _run_ids(self, ids: Any, mask: Any, types: Any) -> Any:
        return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits

    def _embed(self, encoded: Any) -> Any:
        return self.model.get_input_embeddings()(encoded["input_ids"]).detach()

    @staticmethod
    def _get_extra_inputs(encoded: Any) -> tuple[Any, Any]:
        return encoded["attention_mask"], encoded["token_type_ids"]

    def _build_baseline(self, ids: Any) -> Any:
        special = torch.isin(
            ids, torch.tensor([self.tokenizer.cls_token_id, self.tokenizer.sep_token_id])
        )
        return torch.where(special, ids, self.tokenizer.pad_token_id)

    def explain_by_gradient(self, texts: Sequence[str]) -> list[TokenScores]:
        encoded = self._encode(texts)
        found = attr.InputXGradient(self._run_embeddings).attribute(
            self._embed(encoded).requires_grad_(),
            target=self.target,
            additional_forward_args=self._get_extra_inputs(encoded),
        )
        return self._build_scores(encoded, found.sum(-1))

    def integrate_gradients(
        self, texts: Sequence[Any], steps: int | None = None
    ) -> list[TokenScores]:
        encoded = self._encode(texts)
        ids = encoded["input_ids"]
        method = attr.LayerIntegratedGradients(self._run_ids, self.model.get_input_embeddings())
        found = method.attribute(
            ids,
            baselines=self._build_baseline(ids),
            target=self.target,
            additional_forward_args=self._get_extra_inputs(encoded),
            **({} if steps is None else {"n_steps": steps}),
        )
        return self._build_scores(encoded, found.sum(-1))

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        encoded = self._encode(texts)
        ids = encoded["input_ids"]
        found = attr.FeatureAblation(self._run_ids).attribute(
            ids,
            baselines=self.tokenizer.mask_token_id,
            target=self.target,
            additional_forward_args=self._get_extra_inputs(encoded),
        )
        return self._build_scores(encoded, found.float() * encoded["attention_mask"])

    def explain_pair(self, first: str, second: str) -> TokenScores:
        return self.integrate_gradients([(first, second)])[0]

    def explain_wrong_target(self, text: str) -> Any:
        encoded = self._encode([text])
        return attr.InputXGradient(self._run_embeddings).attribute(
            self._embed(encoded).requires_grad_(),
            target=99,
            additional_forward_args=self._get_extra_inputs(encoded),
        )

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        encoded = self._encode([text])
        ids, beside = encoded["input_ids"], self._get_extra_inputs(encoded)
        end = self._embed(encoded)
        words = torch.arange(ids.shape[1])[None]
        groups = {"feature_mask": words[..., None].expand_as(end)}
        more = {"target": self.target, "additional_forward_args": beside}

        def build_dense(kind: Any, **rest: Any) -> Callable[[], Any]:
            return lambda: kind.attribute(end.clone().requires_grad_(), **more, **rest)

        def build_ablation(kind: Any, **rest: Any) -> Callable[[], Any]:
            return lambda: kind.attribute(
                ids, baselines=self.tokenizer.mask_token_id, **more, **rest
            )

        zero = torch.zeros_like(end)
        layer = self.model.get_input_embeddings()
        logits = self._run_embeddings
        return {
            "Saliency": build_dense(attr.Saliency(logits)),
            "InputXGradient": build_dense(attr.InputXGradient(logits)),
            "IntegratedGradients": build_dense(attr.IntegratedGradients(logits)),
            "LayerIntegratedGradients": lambda: self.integrate_gradients([text]),
            "LayerGradientXActivation": lambda: attr.LayerGradientXActivation(
                self._run_ids, layer
            ).attribute(ids, **more),
            "GradientShap": build_dense(attr.GradientShap(logits), baselines=zero),
            "NoiseTunnel": build_dense(attr.NoiseTunnel(attr.Saliency(logits))),
            "DeepLift": build_dense(attr.DeepLift(_EmbeddingModel(self.model)), baselines=zero),
            "LRP": build_dense(attr.LRP(_EmbeddingModel(self.model))),
            "Occlusion": build_ablation(attr.Occlusion(self._run_ids), sliding_window_shapes=(1,)),
            "FeatureAblation": build_ablation(attr.FeatureAblation(self._run_ids)),
            "ShapleyValueSampling": build_ablation(attr.ShapleyValueSampling(self._run_ids)),
            "KernelShap": build_ablation(attr.KernelShap(self._run_ids), feature_mask=words),
            "Lime": build_dense(attr.Lime(logits), **groups),
        }


class _EmbeddingModel(torch.nn.Module):
    """The model as a module of its embeddings, as DeepLift and LRP need it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, embedded: Any, mask: Any, types: Any) -> Any:
        return self.model(inputs_embeds=embedded, attention_mask=mask, token_type_ids=types).logits
