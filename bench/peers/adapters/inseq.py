"""Adapter of inseq, which explains generated text: prompts with their next token, on a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import inseq
import torch
from bench.peers.adapter import Adapter, TokenScores


class LibraryAdapter(Adapter):
    """Adapter that sums raw attributions over the embedding's width; inseq's own display is their norm."""

    causal = True
    takes_lists = True
    explains = "probability"  # its default
    baseline = "unknown"
    called = (
        '`inseq.load_model(model, "integrated_gradients", tokenizer=...).attribute(prompts, texts)`, '
        "the texts being the prompts and one token more"
    )
    names = {
        "gradient": "input_x_gradient",
        "integrated": "integrated_gradients",
        "perturbation": "occlusion",
    }

    def _append_next_token(self, text: str) -> str:
        # Left to generate by itself, inseq decodes this model's text with its <s>, and then misses the prompt in it.
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            token = self.model(ids).logits[0, -1].argmax()
        return str(self.tokenizer.decode([*ids[0].tolist(), int(token)], skip_special_tokens=True))

    def _explain(
        self, method: str, texts: Sequence[str], folder: str = "", **more: Any
    ) -> list[TokenScores]:
        loaded = inseq.load_model(folder or self.model, method, tokenizer=self.tokenizer)
        whole = [self._append_next_token(text) for text in texts]
        found = loaded.attribute(list(texts), whole, show_progress=False, **more)
        return [self._build_scores(one) for one in found.sequence_attributions]

    @staticmethod
    def _build_scores(one: Any) -> TokenScores:
        scores = one.target_attributions
        scores = scores.sum(-1) if scores.ndim == 3 else scores  # perturbation has no width
        prompt = one.attr_pos_start
        tokens = [token.token for token in one.target[:prompt]]
        return TokenScores(tokens, scores[:prompt, 0].double().tolist())

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        # By its folder, as its documentation does: then inseq itself asks for the attention that it can read.
        return {
            name: lambda name=name: self._explain(name, [text], self.model.config.name_or_path)
            for name in inseq.list_feature_attribution_methods()
            if name != "dummy"
        }

    def explain_by_gradient(self, texts: Sequence[str]) -> list[TokenScores]:
        return self._explain("input_x_gradient", texts)

    def integrate_gradients(
        self, texts: Sequence[str], steps: int | None = None
    ) -> list[TokenScores]:
        return self._explain("integrated_gradients", texts, **({"n_steps": steps} if steps else {}))

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        return self._explain("occlusion", texts)
