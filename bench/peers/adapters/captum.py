"""Captum: a forward function around the model and layer integrated gradients, as in its tutorial on BERT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from bench.peers.adapter import Adapter, Given
from captum import attr


class Own(Adapter):
    """Captum takes tensors; the texts are encoded here, as its users do."""

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

    def _encoded(self, texts: Sequence[Any]) -> Any:
        pairs = [list(text) for text in texts] if isinstance(texts[0], tuple) else list(texts)
        return self.tokenizer(pairs, return_tensors="pt", padding=True)

    def _given(self, encoded: Any, scores: Any) -> list[Given]:
        rows = []
        for ids, own, row in zip(
            encoded["input_ids"], encoded["token_type_ids"], scores, strict=True
        ):
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
            rows.append(Given(tokens, row.tolist(), own.tolist()))
        return rows

    def _from_embeddings(self, embedded: Any, mask: Any, types: Any) -> Any:
        return self.model(inputs_embeds=embedded, attention_mask=mask, token_type_ids=types).logits

    def _from_ids(self, ids: Any, mask: Any, types: Any) -> Any:
        return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits

    def _embedded(self, encoded: Any) -> Any:
        return self.model.get_input_embeddings()(encoded["input_ids"]).detach()

    @staticmethod
    def _beside(encoded: Any) -> tuple[Any, Any]:
        return encoded["attention_mask"], encoded["token_type_ids"]

    def _start(self, ids: Any) -> Any:
        special = torch.isin(
            ids, torch.tensor([self.tokenizer.cls_token_id, self.tokenizer.sep_token_id])
        )
        return torch.where(special, ids, self.tokenizer.pad_token_id)

    def gradient(self, texts: Sequence[str]) -> list[Given]:
        encoded = self._encoded(texts)
        found = attr.InputXGradient(self._from_embeddings).attribute(
            self._embedded(encoded).requires_grad_(),
            target=self.target,
            additional_forward_args=self._beside(encoded),
        )
        return self._given(encoded, found.sum(-1))

    def integrated(self, texts: Sequence[Any], steps: int | None = None) -> list[Given]:
        encoded = self._encoded(texts)
        ids = encoded["input_ids"]
        method = attr.LayerIntegratedGradients(self._from_ids, self.model.get_input_embeddings())
        found = method.attribute(
            ids,
            baselines=self._start(ids),
            target=self.target,
            additional_forward_args=self._beside(encoded),
            **({} if steps is None else {"n_steps": steps}),
        )
        return self._given(encoded, found.sum(-1))

    def perturbation(self, texts: Sequence[str]) -> list[Given]:
        encoded = self._encoded(texts)
        ids = encoded["input_ids"]
        found = attr.FeatureAblation(self._from_ids).attribute(
            ids,
            baselines=self.tokenizer.mask_token_id,
            target=self.target,
            additional_forward_args=self._beside(encoded),
        )
        return self._given(encoded, found.float() * encoded["attention_mask"])

    def pair(self, first: str, second: str) -> Given:
        return self.integrated([(first, second)])[0]

    def wrong(self, text: str) -> Any:
        encoded = self._encoded([text])
        return attr.InputXGradient(self._from_embeddings).attribute(
            self._embedded(encoded).requires_grad_(),
            target=99,
            additional_forward_args=self._beside(encoded),
        )

    def methods(self, text: str) -> dict[str, Callable[[], Any]]:
        encoded = self._encoded([text])
        ids, beside = encoded["input_ids"], self._beside(encoded)
        end = self._embedded(encoded)
        words = torch.arange(ids.shape[1])[None]
        groups = {"feature_mask": words[..., None].expand_as(end)}
        more = {"target": self.target, "additional_forward_args": beside}

        def dense(kind: Any, **rest: Any) -> Callable[[], Any]:
            return lambda: kind.attribute(end.clone().requires_grad_(), **more, **rest)

        def tokens(kind: Any, **rest: Any) -> Callable[[], Any]:
            return lambda: kind.attribute(
                ids, baselines=self.tokenizer.mask_token_id, **more, **rest
            )

        zero = torch.zeros_like(end)
        layer = self.model.get_input_embeddings()
        logits = self._from_embeddings
        return {
            "Saliency": dense(attr.Saliency(logits)),
            "InputXGradient": dense(attr.InputXGradient(logits)),
            "IntegratedGradients": dense(attr.IntegratedGradients(logits)),
            "LayerIntegratedGradients": lambda: self.integrated([text]),
            "LayerGradientXActivation": lambda: attr.LayerGradientXActivation(
                self._from_ids, layer
            ).attribute(ids, **more),
            "GradientShap": dense(attr.GradientShap(logits), baselines=zero),
            "NoiseTunnel": dense(attr.NoiseTunnel(attr.Saliency(logits))),
            "DeepLift": dense(attr.DeepLift(_Wrapped(self.model)), baselines=zero),
            "LRP": dense(attr.LRP(_Wrapped(self.model))),
            "Occlusion": tokens(attr.Occlusion(self._from_ids), sliding_window_shapes=(1,)),
            "FeatureAblation": tokens(attr.FeatureAblation(self._from_ids)),
            "ShapleyValueSampling": tokens(attr.ShapleyValueSampling(self._from_ids)),
            "KernelShap": tokens(attr.KernelShap(self._from_ids), feature_mask=words),
            "Lime": dense(attr.Lime(logits), **groups),
        }


class _Wrapped(torch.nn.Module):
    """The model as a module of its embeddings, which two of the methods want."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, embedded: Any, mask: Any, types: Any) -> Any:
        return self.model(inputs_embeds=embedded, attention_mask=mask, token_type_ids=types).logits
