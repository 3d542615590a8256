"""The methods once more on an encoder with a decoder: matrices in full, one input at a time, as papers write them.

Written against what transformers itself returns under eager attention, sharing no code with whence. `s` are the
source's tokens, `q` the decoder's.
"""

from typing import Any

import torch
from torch import Tensor

from whence.data.tokens import EncodedInput


class TwoSided:
    """One input through an encoder-decoder in eager mode, with all maps, hidden states and their gradients."""

    def __init__(self, model: Any, item: EncodedInput, column: int) -> None:
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        leaves: list[Tensor] = []

        def leaf(_: Any, __: Any, output: Tensor) -> Tensor:
            leaves.append(output.detach().requires_grad_())
            return leaves[-1] * 1

        tables = {
            id(part): part
            for side in (model.get_encoder(), model.get_decoder())
            for part in [side.get_input_embeddings()]
        }
        handles = [part.register_forward_hook(leaf) for part in tables.values()]
        out = model(
            input_ids=torch.tensor([item.features["input_ids"]]),
            decoder_input_ids=torch.tensor([item.answer]),
            output_attentions=True,
            output_hidden_states=True,
            use_cache=False,
        )
        for handle in handles:
            handle.remove()
        model.set_attn_implementation(before)
        self.ids = item.reading.ids
        self.row = len(item.answer) - 1
        self.value = out.logits[0, -1, self.ids[column]]
        groups = {
            "ss": out.encoder_attentions,
            "qq": out.decoder_attentions,
            "qs": out.cross_attentions,
            "hs": out.encoder_hidden_states[: len(out.encoder_attentions)],
            "hq": out.decoder_hidden_states[: len(out.decoder_attentions)],
            "e": tuple(leaves),
        }
        every = [one for group in groups.values() for one in group]
        grads = iter(torch.autograd.grad(self.value, every))
        self.seen = {name: [one[0].detach() for one in group] for name, group in groups.items()}
        self.slopes = {name: [next(grads)[0] for _ in group] for name, group in groups.items()}

    def positive(self, kind: str) -> list[Tensor]:
        """Ā = mean over heads of (∇A ∘ A)⁺, eq. 5."""
        pairs = zip(self.seen[kind], self.slopes[kind], strict=True)
        return [(one * grad).clamp(min=0).mean(0) for one, grad in pairs]


def _normalised(relevance: Tensor) -> Tensor:
    """R̂ = R - I, each row divided by its sum, eq. 8 and 9; plus I. A row of zeros stays one of zeros."""
    extra = relevance - torch.eye(len(relevance)).to(relevance)
    for i in range(len(extra)):
        total = extra[i].sum()
        if total != 0:
            extra[i] = extra[i] / total
    return extra + torch.eye(len(relevance)).to(relevance)


def generic_attention(run: TwoSided) -> Tensor:
    r_ss = torch.eye(run.seen["ss"][0].shape[-1]).double()
    r_qq = torch.eye(run.seen["qq"][0].shape[-1]).double()
    r_qs = torch.zeros(len(r_qq), len(r_ss)).double()
    for a_ss in run.positive("ss"):
        r_ss = r_ss + a_ss @ r_ss  # eq. 6
    for a_qq, a_qs in zip(run.positive("qq"), run.positive("qs"), strict=True):
        r_qq, r_qs = r_qq + a_qq @ r_qq, r_qs + a_qq @ r_qs  # eq. 6 and 7
        r_qs = r_qs + _normalised(r_qq).T @ a_qs @ _normalised(r_ss)  # eq. 10
    return torch.cat([r_qs[run.row], r_qq[run.row]])


def raw_attention(run: TwoSided) -> Tensor:
    return torch.cat([run.seen[kind][-1].mean(0)[run.row] for kind in ("qs", "qq")])


def attention_gradient(run: TwoSided) -> Tensor:
    total = []
    for kind in ("qs", "qq"):
        pairs = zip(run.seen[kind], run.slopes[kind], strict=True)
        total.append(sum((one * grad).mean(0)[run.row] for one, grad in pairs))
    return torch.cat(total)


def rollout(run: TwoSided) -> Tensor:
    """One matrix over all tokens for every map: what is not spoken of in it stays where it is."""
    sources, answers = run.seen["qs"][0].shape[-1], run.seen["qs"][0].shape[-2]
    source, answer = slice(0, sources), slice(sources, sources + answers)
    maps = [(source, source, one) for one in run.seen["ss"]]
    for own, cross in zip(run.seen["qq"], run.seen["qs"], strict=True):
        maps += [(answer, answer, own), (answer, source, cross)]
    product = torch.eye(sources + answers).double()
    for queries, keys, one in maps:
        mixed = torch.eye(sources + answers).double()
        mixed[queries] *= 0.5
        mixed[queries, keys] += 0.5 * one.mean(0)
        product = mixed @ product
    return product[sources + run.row]


def _cat(run: TwoSided, kind: str) -> list[Tensor]:
    return [(h * g).sum(-1) for h, g in zip(run.seen[kind], run.slopes[kind], strict=True)]


def cat(run: TwoSided) -> Tensor:
    return torch.cat([sum(_cat(run, "hs")), sum(_cat(run, "hq"))])


def attcat(run: TwoSided) -> Tensor:
    total = []
    for hidden, kind in (("hs", "ss"), ("hq", "qq")):
        received = [one.mean(0).mean(0) for one in run.seen[kind]]  # over heads, over query rows
        pairs = zip(_cat(run, hidden), received, strict=True)
        total.append(sum(one * weight for one, weight in pairs))
    return torch.cat(total)


def gradient(run: TwoSided) -> Tensor:
    return torch.cat([one.norm(dim=-1) for one in run.slopes["e"]])


def grad_x_input(run: TwoSided) -> Tensor:
    return torch.cat(_cat(run, "e"))


TWINS = {
    twin.__name__: twin
    for twin in (
        generic_attention, raw_attention, attention_gradient, rollout, cat, attcat, gradient, grad_x_input
    )
}  # fmt: skip
