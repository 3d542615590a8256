"""Gradients of a target with respect to the model's outputs, for each readout: where relevance starts."""

import pytest
import torch
import transformers as hf

from tests import zoo
from whence.core.types import InputText
from whence.data.batches import collate
from whence.data.readout import ContinuationReadout, SpanReadout, TokenReadout
from whence.data.tokens import EncodedInput
from whence.methods import method
from whence.tracing.structure import compute_output_gradients
from whence.tracing.target import TargetSpec
from whence.tracing.trace import run_traced

_BERT = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 48, "pad_token_id": 0,
}  # fmt: skip


def run_traced_bert(kind, reading, needs=("attention", "steps", "relevance"), of="logit"):
    model = zoo.seeded(lambda: kind(hf.BertConfig(**_BERT))).double().eval()
    items = [
        EncodedInput(
            {"input_ids": ids, "attention_mask": (1,) * len(ids)},
            (),
            (),
            InputText(None),
            reading=reading,
        )
        for ids in ((5, 6, 7, 8, 9, 10), (15, 16, 7, 18))
    ]
    batch = collate(items, pad_id=0, device=torch.device("cpu"))
    return run_traced(model, batch, needs, TargetSpec(0, None, of), "mask")


def test_output_gradient_of_a_token_readout_is_one_at_that_logit():
    found = run_traced_bert(hf.BertForMaskedLM, TokenReadout(2, (7, 8)))
    (slope,) = compute_output_gradients(found.heads, found.batch, found.targets).values()
    assert slope.nonzero().tolist() == [[0, 2, 7], [1, 2, 7]]
    assert slope.sum() == 2


def test_output_gradients_of_a_span_readout_are_nonzero_at_start_and_end_only():
    found = run_traced_bert(hf.BertForQuestionAnswering, SpanReadout(1, 3))
    given = compute_output_gradients(found.heads, found.batch, found.targets)
    assert {name: one.nonzero().tolist() for name, one in given.items()} == {
        "start_logits": [[0, 1], [1, 1]],
        "end_logits": [[0, 3], [1, 3]],
    }


def test_output_gradient_of_a_continuation_readout_is_one_hot_less_softmax():
    """d log p(7) / d logits = [the token is 7] - p, at the place where it is foretold."""
    found = run_traced_bert(hf.BertForMaskedLM, ContinuationReadout((-2,), (7,)))
    (slope,) = compute_output_gradients(found.heads, found.batch, found.targets).values()
    for row, place in enumerate((4, 2)):
        logits = found.heads["logits"].value[row, place]
        wanted = torch.nn.functional.one_hot(torch.tensor(7), 64) - logits.softmax(-1)
        torch.testing.assert_close(slope[row, place], wanted)
    assert slope.ne(0).any(-1).nonzero().tolist() == [[0, 4], [1, 2]]


@pytest.mark.parametrize(
    ("kind", "reading"),
    [
        (hf.BertForMaskedLM, TokenReadout(2, (7, 8))),
        (hf.BertForQuestionAnswering, SpanReadout(1, 3)),
    ],
)
def test_decompx_of_token_and_span_readouts_has_no_completeness_residual(kind, reading):
    found = run_traced_bert(kind, reading)
    _, axioms = method.get("decompx").fn(found)
    assert axioms["completeness"].abs().max() < 1e-12
