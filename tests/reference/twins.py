"""Every method again, slowly and plainly, from its formula: loops, float64, maps in full.

Written from the papers against what transformers itself returns (`output_attentions`, `output_hidden_states`
under eager attention), sharing no code with whence.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

TWINS: dict[str, Callable[..., list[float]]] = {}
ONLY_ON: dict[str, tuple[str, ...]] = {}  # the architectures of a twin that is not written for all


def twin(name: str, *, on: tuple[str, ...] | None = None) -> Callable[[Any], Any]:
    """Register the twin of a method, for all architectures or only for some."""

    def register(fn: Any) -> Any:
        TWINS[name] = fn
        if on is not None:
            ONLY_ON[name] = on
        return fn

    return register


class Eager:
    """One input through a model in eager mode, with maps, hidden states and their gradients."""

    def __init__(self, model: Any, ids: list[int], target: int) -> None:
        self.model, self.ids, self.target = model, ids, target
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        embedded = model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
        out = model(inputs_embeds=embedded, output_attentions=True, output_hidden_states=True)
        logit = out.logits[0, target]
        grads = torch.autograd.grad(logit, [embedded, *out.attentions, *out.hidden_states[:-1]])
        layers = len(out.attentions)
        self.embedded, self.embedded_grad = embedded[0].detach(), grads[0][0]
        self.maps = [a[0].detach() for a in out.attentions]
        self.map_grads = [g[0] for g in grads[1 : layers + 1]]
        self.hidden = [h[0].detach() for h in out.hidden_states[:-1]]
        self.hidden_grads = [g[0] for g in grads[layers + 1 :]]
        self.probability = out.logits[0].softmax(-1)[target].item()
        model.set_attn_implementation(before)

    @property
    def tokens(self) -> range:
        return range(len(self.ids))


def head_mean(tensor: torch.Tensor, i: int, j: int) -> float:
    return sum(tensor[h, i, j].item() for h in range(tensor.shape[0])) / tensor.shape[0]


@twin("raw_attention")
def raw_attention(run: Eager, row: int) -> list[float]:
    return [head_mean(run.maps[-1], row, j) for j in run.tokens]


@twin("rollout")
def rollout(run: Eager, row: int) -> list[float]:
    product = [[float(i == j) for j in run.tokens] for i in run.tokens]
    for one in run.maps:
        mixed = [[head_mean(one, i, j) + float(i == j) for j in run.tokens] for i in run.tokens]
        mixed = [[value / sum(line) for value in line] for line in mixed]
        product = [
            [sum(mixed[i][k] * product[k][j] for k in run.tokens) for j in run.tokens]
            for i in run.tokens
        ]
    return product[row]


@twin("generic_attention")
def generic_attention(run: Eager, row: int) -> list[float]:
    relevance = [[float(i == j) for j in run.tokens] for i in run.tokens]
    for one, grad in zip(run.maps, run.map_grads, strict=True):
        positive = (one * grad).clamp(min=0)
        update = [
            [
                sum(head_mean(positive, i, k) * relevance[k][j] for k in run.tokens)
                for j in run.tokens
            ]
            for i in run.tokens
        ]
        relevance = [[relevance[i][j] + update[i][j] for j in run.tokens] for i in run.tokens]
    return relevance[row]


@twin("gradient")
def gradient(run: Eager, row: int) -> list[float]:
    return [math.sqrt(sum(g.item() ** 2 for g in run.embedded_grad[j])) for j in run.tokens]


@twin("grad_x_input")
def grad_x_input(run: Eager, row: int) -> list[float]:
    return [
        sum((g * e).item() for g, e in zip(run.embedded_grad[j], run.embedded[j], strict=True))
        for j in run.tokens
    ]


def _cat(run: Eager, layer: int, j: int) -> float:
    pairs = zip(run.hidden[layer][j], run.hidden_grads[layer][j], strict=True)
    return sum((h * g).item() for h, g in pairs)


@twin("cat")
def cat(run: Eager, row: int) -> list[float]:
    return [sum(_cat(run, layer, j) for layer in range(len(run.maps))) for j in run.tokens]


@twin("attcat")
def attcat(run: Eager, row: int) -> list[float]:
    def received(layer: int, j: int) -> float:
        return sum(head_mean(run.maps[layer], i, j) for i in run.tokens) / len(run.ids)

    return [
        sum(_cat(run, layer, j) * received(layer, j) for layer in range(len(run.maps)))
        for j in run.tokens
    ]


@twin("leave_one_out")
def leave_one_out(run: Eager, row: int) -> list[float]:
    scores = []
    for j in run.tokens:
        rest = torch.tensor([run.ids[:j] + run.ids[j + 1 :]])
        with torch.no_grad():
            after = run.model(input_ids=rest).logits[0].softmax(-1)[run.target].item()
        scores.append(run.probability - after)
    return scores
