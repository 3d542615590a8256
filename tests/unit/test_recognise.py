"""Recognition of attention in custom models: maps, gradients and scores for every way of writing attention."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot


def plain(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def flattened(q, k, v, mask):
    b, h, n, d = q.shape
    scores = torch.matmul(q, k.transpose(2, 3)) * d**-0.5 + (~mask) * -1e30
    weights = F.dropout(F.softmax(scores, dim=-1), 0.1, False).to(v.dtype).view(b * h, n, n)
    return torch.bmm(weights, v.reshape(b * h, n, d)).view(b, h, n, d)


def fused(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def fused_by_keyword(q, k, v, mask):
    return F.scaled_dot_product_attention(
        query=q, key=k, value=v, attn_mask=mask, scale=q.shape[-1] ** -0.5
    )


CONFIG = BertConfig(
    vocab_size=64, hidden_size=32, num_hidden_layers=3, num_labels=3, pad_token_id=0
)
SPELLINGS = {f.__name__: f for f in (plain, flattened, fused, fused_by_keyword)}


class Block(nn.Module):
    def __init__(self, width, attend):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attend = attend

    def forward(self, x, mask):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return x + self.out(self.attend(q, k, v, mask).transpose(1, 2).flatten(2)).tanh()


class CustomAttentionClassifier(PreTrainedModel):
    config_class = BertConfig

    def __init__(self, config, attend):
        super().__init__(config)
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config.hidden_size, attend) for _ in range(3))
        self.head = nn.Linear(config.hidden_size, config.num_labels)

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids, attention_mask):
        x = self.table(input_ids)
        for block in self.blocks:
            x = block(x, attention_mask[:, None, None, :].bool())
        return SequenceClassifierOutput(logits=self.head(x[:, 0]))


@pytest.fixture(params=sorted(SPELLINGS))
def explainer(request):
    def make(attend):
        model = zoo.seeded(lambda: CustomAttentionClassifier(CONFIG, attend))
        return whence.load(model.double().eval())

    return make(SPELLINGS[request.param]), make(plain)


def test_trace_and_scores_are_equal_for_every_way_of_writing_attention(explainer):
    one, other = explainer
    rows = zoo.rows("bert")
    traces = one.trace(rows), other.trace(rows)
    assert len(traces[0].layers) == 3
    for mine, theirs in zip(*(t.layers for t in traces), strict=True):
        torch.testing.assert_close(mine.map(), theirs.map())
        torch.testing.assert_close(mine.map_grad(), theirs.map_grad())
    names = ["generic_attention", "attcat", "rollout", "raw_attention"]
    for mine, theirs in zip(*(e.explain(rows, method=names) for e in explainer), strict=True):
        for name in names:
            torch.testing.assert_close(
                torch.tensor(mine[name].scores), torch.tensor(theirs[name].scores)
            )


def test_recognised_attention_map_equals_softmax_of_scaled_scores(explainer):
    """Written out by hand for the first block: softmax of q k over the root of the width."""
    one, _ = explainer
    row = zoo.rows("bert")[0]
    layer = one.trace(row).layer(0)
    block = one.model.blocks[0]
    with torch.no_grad():
        x = one.model.table(torch.tensor([row["input_ids"]]))
        q, k, _ = (
            part.unflatten(-1, (4, -1)).transpose(1, 2) for part in block.qkv(x).chunk(3, -1)
        )
    torch.testing.assert_close(layer.map(), (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1))


def test_explain_leaves_a_model_with_custom_attention_unchanged(explainer):
    one, _ = explainer
    before = snapshot(one.model)
    one.explain(zoo.rows("bert"), method=["generic_attention", "attcat"])
    assert_unchanged(before, snapshot(one.model))
