"""BERT, GPT-2 and Llama again in plain tensor code: one input, float64, every step of a layer kept.

The weights are the stock model's, the arithmetic is written out here, so that a twin can walk back through
it, or run a layer once more with something changed. `test_relevance_twins.py` holds the logits against
the model's own.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

Tensor = torch.Tensor


@dataclass(frozen=True)
class Linear:
    """y = W x + b, for rows x."""

    weight: Tensor  # (outputs, inputs)
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


@dataclass(frozen=True)
class Norm:
    """LayerNorm, or RMSNorm where nothing is centred."""

    scale: Tensor
    shift: Tensor
    epsilon: float
    centred: bool = True

    def centre(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if self.centred else x

    def spread(self, x: Tensor) -> Tensor:
        """Return the deviation of each row (or its root mean square): what the norm divides by."""
        return ((self.centre(x) ** 2).mean(-1, keepdim=True) + self.epsilon).sqrt()

    def linear(self, part: Tensor, whole: Tensor) -> Tensor:
        """Normalise a part of a vector by the deviation of the whole, without the shift."""
        return self.centre(part) / self.spread(whole) * self.scale

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x, x) + self.shift


@dataclass(frozen=True)
class Block:
    """One layer: attention and MLP, the norms after the sums (BERT) or before the branches."""

    norms_first: bool
    heads: int
    query: Linear
    key: Linear
    value: Linear
    out: Linear
    norm1: Norm
    up: Linear
    down: Linear
    activation: Callable[[Tensor], Tensor]
    norm2: Norm
    mask: Tensor | None  # added to the scores: 0, or minus infinity; a model of pictures has none
    gate: Linear | None = None  # Llama: activation(gate) times up
    turn: Tensor | None = None  # Llama: one rotation matrix for each place
    fused: bool = False  # GPT-2: query, key and value are one matrix product

    def split(self, x: Tensor) -> Tensor:
        """Cut rows into heads: (heads, tokens, features of a head)."""
        return torch.stack(x.split(self.head_size, dim=-1))

    @property
    def head_size(self) -> int:
        return self.query.weight.shape[0] // self.heads

    def shared(self, head: int) -> int:
        """Return which key and value head a query head uses."""
        return head // (self.query.weight.shape[0] // self.key.weight.shape[0])

    def rotated(self, x: Tensor) -> Tensor:
        """Turn the vector of each place by that place's angle."""
        return x if self.turn is None else torch.einsum("nde,hne->hnd", self.turn, x)

    def run(self, x: Tensor, silent: int | None = None) -> SimpleNamespace:
        """Compute the layer and keep every step; the value of token `silent` is zero in all heads."""
        seen = self.norm1(x) if self.norms_first else x  # what attention sees
        query, key = (self.rotated(self.split(f(seen))) for f in (self.query, self.key))
        value = self.split(self.value(seen))
        if silent is not None:
            value[:, silent] = 0
        key = torch.stack([key[self.shared(h)] for h in range(self.heads)])
        value = torch.stack([value[self.shared(h)] for h in range(self.heads)])
        scores = query @ key.mT / math.sqrt(self.head_size)
        attention = (scores if self.mask is None else scores + self.mask).softmax(-1)
        context = torch.cat(list(attention @ value), dim=-1)
        attended = self.out(context)
        sum1 = attended + x
        middle = sum1 if self.norms_first else self.norm1(sum1)
        fed = self.norm2(middle) if self.norms_first else middle  # what the MLP sees
        if self.gate is None:
            inner = self.up(fed)
            active = self.activation(inner)
        else:
            inner = self.gate(fed)
            active = self.activation(inner) * self.up(fed)
        mlp = self.down(active)
        sum2 = mlp + middle
        output = sum2 if self.norms_first else self.norm2(sum2)
        steps = locals()
        del steps["self"], steps["silent"]
        return SimpleNamespace(**steps)


@dataclass(frozen=True)
class Plain:
    """A whole classifier: embeddings, blocks, and the head on the row that the prediction reads."""

    tokens: Tensor  # the rows of the embedding table
    places: Tensor  # what is added to them
    first_norm: Norm | None
    blocks: list[Block]
    last_norm: Norm | None
    row: int
    pooler: Linear | None  # followed by tanh
    classifier: Linear

    def run(self) -> SimpleNamespace:
        """Compute everything, and keep the steps of every layer."""
        embedded = self.tokens + self.places
        start = self.first_norm(embedded) if self.first_norm else embedded
        x, layers = start, []
        for block in self.blocks:
            layers.append(block.run(x))
            x = layers[-1].output
        final = self.last_norm(x) if self.last_norm else x
        read = final[self.row]
        pooled = self.pooler(read) if self.pooler else None
        told = read if pooled is None else pooled.tanh()
        return SimpleNamespace(
            embedded=embedded, start=start, layers=layers, last=x,
            read=read, pooled=pooled, told=told, logits=self.classifier(told),
        )  # fmt: skip


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: Tensor) -> Tensor:
    return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def _linear(module: Any) -> Linear:
    weight = module.weight.detach()
    bias = weight.new_zeros(weight.shape[0]) if module.bias is None else module.bias.detach()
    return Linear(weight, bias)


def _conv1d(module: Any, part: slice = slice(None)) -> Linear:
    return Linear(module.weight.detach().T[part], module.bias.detach()[part])


def _norm(module: Any) -> Norm:
    return Norm(module.weight.detach(), module.bias.detach(), module.eps)


def _rms_norm(module: Any) -> Norm:
    scale = module.weight.detach()
    return Norm(scale, torch.zeros_like(scale), module.variance_epsilon, centred=False)


def _causal(n: int) -> Tensor:
    return torch.full((n, n), -math.inf, dtype=torch.float64).triu(1)


def _bert(model: Any, ids: list[int]) -> Plain:
    n, table = len(ids), model.bert.embeddings
    blocks = [
        Block(
            norms_first=False,
            heads=model.config.num_attention_heads,
            query=_linear(layer.attention.self.query),
            key=_linear(layer.attention.self.key),
            value=_linear(layer.attention.self.value),
            out=_linear(layer.attention.output.dense),
            norm1=_norm(layer.attention.output.LayerNorm),
            up=_linear(layer.intermediate.dense),
            down=_linear(layer.output.dense),
            activation=gelu,
            norm2=_norm(layer.output.LayerNorm),
            mask=torch.zeros(n, n, dtype=torch.float64),
        )
        for layer in model.bert.encoder.layer
    ]
    return Plain(
        tokens=table.word_embeddings.weight.detach()[ids],
        places=(
            table.position_embeddings.weight.detach()[:n]
            + table.token_type_embeddings.weight.detach()[0]
        ),
        first_norm=_norm(table.LayerNorm),
        blocks=blocks,
        last_norm=None,
        row=0,
        pooler=_linear(model.bert.pooler.dense),
        classifier=_linear(model.classifier),
    )


def _gpt2(model: Any, ids: list[int]) -> Plain:
    n, width = len(ids), model.config.n_embd
    blocks = [
        Block(
            norms_first=True,
            heads=model.config.n_head,
            query=_conv1d(layer.attn.c_attn, slice(0, width)),
            key=_conv1d(layer.attn.c_attn, slice(width, 2 * width)),
            value=_conv1d(layer.attn.c_attn, slice(2 * width, 3 * width)),
            fused=True,
            out=_conv1d(layer.attn.c_proj),
            norm1=_norm(layer.ln_1),
            up=_conv1d(layer.mlp.c_fc),
            down=_conv1d(layer.mlp.c_proj),
            activation=gelu_tanh,
            norm2=_norm(layer.ln_2),
            mask=_causal(n),
        )
        for layer in model.transformer.h
    ]
    return Plain(
        tokens=model.transformer.wte.weight.detach()[ids],
        places=model.transformer.wpe.weight.detach()[:n],
        first_norm=None,
        blocks=blocks,
        last_norm=_norm(model.transformer.ln_f),
        row=n - 1,
        pooler=None,
        classifier=_linear(model.score),
    )


def _rotations(n: int, size: int, base: float) -> Tensor:
    """Return for each place the matrix that turns features f and f + size/2 by place / base^(2f/size)."""
    matrices = torch.zeros(n, size, size, dtype=torch.float64)
    half = size // 2
    for place in range(n):
        for f in range(half):
            angle = place / base ** (2 * f / size)
            matrices[place, f, f] = matrices[place, f + half, f + half] = math.cos(angle)
            matrices[place, f, f + half] = -math.sin(angle)
            matrices[place, f + half, f] = math.sin(angle)
    return matrices


def _llama(model: Any, ids: list[int]) -> Plain:
    n, config = len(ids), model.config
    size = config.hidden_size // config.num_attention_heads
    blocks = [
        Block(
            norms_first=True,
            heads=config.num_attention_heads,
            query=_linear(layer.self_attn.q_proj),
            key=_linear(layer.self_attn.k_proj),
            value=_linear(layer.self_attn.v_proj),
            out=_linear(layer.self_attn.o_proj),
            norm1=_rms_norm(layer.input_layernorm),
            gate=_linear(layer.mlp.gate_proj),
            up=_linear(layer.mlp.up_proj),
            down=_linear(layer.mlp.down_proj),
            activation=silu,
            norm2=_rms_norm(layer.post_attention_layernorm),
            mask=_causal(n),
            turn=_rotations(n, size, config.rope_parameters["rope_theta"]),
        )
        for layer in model.model.layers
    ]
    tokens = model.model.embed_tokens.weight.detach()[ids]
    return Plain(
        tokens=tokens,
        places=torch.zeros_like(tokens),
        first_norm=None,
        blocks=blocks,
        last_norm=_rms_norm(model.model.norm),
        row=n - 1,
        pooler=None,
        classifier=_linear(model.score),
    )


def plain(model: Any, ids: list[int]) -> Plain:
    """Take the weights out of a stock classifier."""
    return {"bert": _bert, "gpt2": _gpt2, "llama": _llama}[model.config.model_type](model, ids)
