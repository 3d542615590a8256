"""What a target gives to the model's own outputs, whatever the reading: where relevance starts from."""

import pytest
import torch
import transformers as hf

from tests import zoo
from whence.capture import TargetSpec, trace
from whence.capture.anatomy.heads import slopes
from whence.core.types import Source
from whence.data import Encoded, collate
from whence.data.reading import AtPlace, Continuation, Span
from whence.methods import method

_BERT = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 48, "pad_token_id": 0,
}  # fmt: skip


def seen(kind, reading, needs=("attention", "steps", "relevance"), of="logit"):
    model = zoo.seeded(lambda: kind(hf.BertConfig(**_BERT))).double().eval()
    items = [
        Encoded(
            {"input_ids": ids, "attention_mask": (1,) * len(ids)},
            (),
            (),
            Source(None),
            reading=reading,
        )
        for ids in ((5, 6, 7, 8, 9, 10), (15, 16, 7, 18))
    ]
    batch = collate(items, pad_id=0, device=torch.device("cpu"))
    return trace(model, batch, needs, TargetSpec(0, None, of), "mask")


def test_one_at_the_logit_of_a_token():
    found = seen(hf.BertForMaskedLM, AtPlace(2, (7, 8)))
    (slope,) = slopes(found.heads, found.batch, found.targets).values()
    assert slope.nonzero().tolist() == [[0, 2, 7], [1, 2, 7]]
    assert slope.sum() == 2


def test_one_at_both_ends_of_an_answer():
    found = seen(hf.BertForQuestionAnswering, Span(1, 3))
    given = slopes(found.heads, found.batch, found.targets)
    assert {name: one.nonzero().tolist() for name, one in given.items()} == {
        "start_logits": [[0, 1], [1, 1]],
        "end_logits": [[0, 3], [1, 3]],
    }


def test_a_whole_answer_by_its_slope():
    """d log p(7) / d logits = [the token is 7] - p, at the place where it is foretold."""
    found = seen(hf.BertForMaskedLM, Continuation((-2,), (7,)))
    (slope,) = slopes(found.heads, found.batch, found.targets).values()
    for row, place in enumerate((4, 2)):
        logits = found.heads["logits"].value[row, place]
        wanted = torch.nn.functional.one_hot(torch.tensor(7), 64) - logits.softmax(-1)
        torch.testing.assert_close(slope[row, place], wanted)
    assert slope.ne(0).any(-1).nonzero().tolist() == [[0, 4], [1, 2]]


@pytest.mark.parametrize(
    ("kind", "reading"),
    [(hf.BertForMaskedLM, AtPlace(2, (7, 8))), (hf.BertForQuestionAnswering, Span(1, 3))],
)
def test_a_decomposition_adds_up_to_what_is_read(kind, reading):
    found = seen(kind, reading)
    _, axioms = method.get("decompx").fn(found)
    assert axioms["completeness"].abs().max() < 1e-12
