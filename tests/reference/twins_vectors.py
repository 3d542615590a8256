"""The twins of the methods that follow vectors instead of weights: plain code on the layers of `plain.py`.

Kobayashi et al. 2020 and 2021 (norm), Modarressi et al. 2022 (GlobEnc) and 2023 (DecompX), Ferrando et al.
2022 (ALTI), Mohebbi et al. 2023 (Value Zeroing). Where norms come before the branches (GPT-2, Llama), the
values are those of the normed input and no norm follows the sum.
"""

from types import SimpleNamespace

import torch

from tests.reference.plain import Block, Linear, Norm, Tensor, plain
from tests.reference.twins import Eager, twin

Matrix = list[list[float]]


def brought(block: Block, at: SimpleNamespace, i: int, j: int) -> Tensor:
    """Return what token j brings to token i: the sum over heads of alpha^h_ij (x_j W_V^h + b_V^h) W_O^h."""
    total = torch.zeros_like(at.x[i])
    for h, matrix in enumerate(block.out.weight.split(block.head_size, dim=1)):
        total = total + at.attention[h, i, j] * (matrix @ at.value[h, j])
    return total


def with_skip(block: Block, at: SimpleNamespace, i: int, j: int) -> Tensor:
    """y_ij: what token j brings to the sum of attention and skip connection at token i, biases aside."""
    return brought(block, at, i, j) + at.x[i] if i == j else brought(block, at, i, j)


def after_first_norm(block: Block, at: SimpleNamespace, i: int, j: int) -> Tensor:
    """g(y_ij): centred and scaled, by the deviation of the real sum; the shift is dropped."""
    part = with_skip(block, at, i, j)
    return part if block.norms_first else block.norm1.linear(part, at.sum1[i])


def after_second_norm(block: Block, at: SimpleNamespace, i: int, j: int) -> Tensor:
    """The second skip connection without the MLP, by the deviation of the real sum with it."""
    part = after_first_norm(block, at, i, j)
    return part if block.norms_first else block.norm2.linear(part, at.sum2[i])


def layers(run: Eager) -> list[tuple[Block, SimpleNamespace]]:
    model = plain(run.model, run.ids)
    return list(zip(model.blocks, model.run().layers, strict=True))


def to_sum_one(matrix: Matrix) -> Matrix:
    return [[value / sum(line) for value in line] for line in matrix]


def rolled(matrices: list[Matrix], layer: int | None) -> Matrix:
    """Multiply from the last layer down to the first, with no identity added; or take one layer."""
    if layer is not None:
        return matrices[layer]
    result = matrices[0]
    tokens = range(len(result))
    for one in matrices[1:]:
        result = [[sum(one[i][k] * result[k][j] for k in tokens) for j in tokens] for i in tokens]
    return result


@twin("norm", on=("bert", "gpt2", "llama"))
def norm(run: Eager, row: int, *, variant="2021", layer=-1) -> list[float]:
    block, at = layers(run)[layer]
    vector = brought if variant == "2020" else after_first_norm
    return [vector(block, at, row, j).norm().item() for j in run.tokens]


@twin("globenc", on=("bert", "gpt2", "llama"))
def globenc(run: Eager, row: int, *, layer=None, row_normalise=True) -> list[float]:
    matrices = []
    for block, at in layers(run):
        matrix = [
            [after_second_norm(block, at, i, j).norm().item() for j in run.tokens]
            for i in run.tokens
        ]
        matrices.append(to_sum_one(matrix) if row_normalise else matrix)
    return rolled(matrices, layer)[row]


@twin("alti", on=("bert", "gpt2", "llama"))
def alti(run: Eager, row: int, *, layer=None) -> list[float]:
    matrices = []
    for block, at in layers(run):
        matrix = []
        for i in run.tokens:
            whole = at.middle[i]  # y_i with all biases
            size = whole.abs().sum().item()
            distances = [
                (whole - after_first_norm(block, at, i, j)).abs().sum().item() for j in run.tokens
            ]
            matrix.append([max(0.0, size - distance) for distance in distances])
        matrices.append(to_sum_one(matrix))
    return rolled(matrices, layer)[row]


@twin("value_zeroing", on=("bert", "gpt2", "llama"))
def value_zeroing(run: Eager, row: int, *, layer=None) -> list[float]:
    matrices = []
    for block, at in layers(run):
        matrix = [[0.0 for _ in run.tokens] for _ in run.tokens]
        for j in run.tokens:
            without = block.run(at.x, silent=j).output
            for i in run.tokens:
                a, b = without[i], at.output[i]
                matrix[i][j] = 1 - (a @ b / (a.norm() * b.norm())).item()
        matrices.append(to_sum_one(matrix))
    return rolled(matrices, layer)[row]


# ----------------------------------------------------------------------------------------------------
# DecompX: parts[i, k] is the share of input token k in the vector of token i, through all layers.


def weight_of(part: Tensor, bias: Tensor, way: str) -> float:
    """Say how much of a bias a part takes, compared with the other parts of the same token."""
    dot, size = abs((part @ bias).item()), part.norm().item()
    if way == "absdot":
        return dot
    if way == "abssim":
        return dot / size if size else 0.0  # the length of the bias is the same for all
    return {"norm": size, "equal": 1.0}[way]


def with_bias(parts: Tensor, bias: Tensor, way: str) -> Tensor:
    """Share out a bias among the parts of every token, by weights that add up to one."""
    if way == "none" or not bias.any():
        return parts
    result = parts.clone()
    for i, of_token in enumerate(parts):
        weights = [weight_of(part, bias, way) for part in of_token]
        for k, weight in enumerate(weights):
            result[i, k] += weight / sum(weights) * bias
    return result


def apply(layer: Linear, parts: Tensor, way: str) -> Tensor:
    return with_bias(parts @ layer.weight.T, layer.bias, way)


def normed(norm: Norm, parts: Tensor, whole: Tensor, way: str) -> Tensor:
    """Divide by the deviation of the whole vector; the shift is a bias."""
    linear = torch.stack([norm.linear(part, one) for part, one in zip(parts, whole, strict=True)])
    return with_bias(linear, norm.shift, way)


def attended(block: Block, at: SimpleNamespace, parts: Tensor, way: str) -> Tensor:
    """Mix the parts by the attention weights, which are constants, head by head."""
    size = block.head_size
    mixed = torch.zeros_like(parts)
    for h in range(block.heads):
        lent = slice(block.shared(h) * size, (block.shared(h) + 1) * size)
        matrix = block.out.weight[:, h * size : (h + 1) * size] @ block.value.weight[lent]
        for i in range(len(parts)):
            for j in range(len(parts)):
                mixed[i] += at.attention[h, i, j] * (parts[j] @ matrix.T)
    # The weights of a row add up to one, so the value's bias comes through whole.
    return with_bias(mixed, block.out.weight @ block.value.bias + block.out.bias, way)


def through_mlp(block: Block, at: SimpleNamespace, parts: Tensor, way: str) -> Tensor:
    """The activation is a line through zero and its real value: f(a) / a."""
    slope = block.activation(at.inner) / at.inner
    return apply(block.down, apply(block.up, parts, way) * slope[:, None], way)


@twin("decompx", on=("bert", "gpt2"))
def decompx(run: Eager, row: int, *, bias="absdot") -> list[float]:
    model = plain(run.model, run.ids)
    known = model.run()
    parts = torch.zeros(len(run.ids), *known.start.shape, dtype=torch.float64)
    for i in run.tokens:
        parts[i, i] = known.start[i]
    for block, at in zip(model.blocks, known.layers, strict=True):
        if block.norms_first:
            seen = normed(block.norm1, parts, at.x, bias)
            parts = parts + attended(block, at, seen, bias)
            fed = normed(block.norm2, parts, at.middle, bias)
            parts = parts + through_mlp(block, at, fed, bias)
        else:
            parts = parts + attended(block, at, parts, bias)
            parts = normed(block.norm1, parts, at.sum1, bias)
            parts = parts + through_mlp(block, at, parts, bias)
            parts = normed(block.norm2, parts, at.sum2, bias)
    if model.last_norm is not None:
        parts = normed(model.last_norm, parts, known.last, bias)
    read = parts[model.row : model.row + 1]
    if model.pooler is not None:
        read = apply(model.pooler, read, bias) * (known.told / known.pooled)  # tanh: f(a) / a
    # The classifier's bias is shared like any other: by its product with the logits of all classes.
    return apply(model.classifier, read, bias)[0, :, run.target].tolist()


# What the methods can do beside their defaults: the method's name, the twin, parameters for both, and
# the architectures, if not all that the twin is written for.
VARIANTS = [
    ("norm", norm, {"variant": "2020"}),
    ("norm", norm, {"layer": 0}),
    ("globenc", globenc, {"row_normalise": False}),
    ("globenc", globenc, {"layer": 1, "row_normalise": False}),
    ("alti", alti, {"layer": 1}),
    ("value_zeroing", value_zeroing, {"layer": -1}),
    *[("decompx", decompx, {"bias": way}) for way in ("abssim", "norm", "none")],
    # Equal shares for all tokens are the paper's, whose encoders let every token see every other.
    ("decompx", decompx, {"bias": "equal"}, ("bert",)),
]
