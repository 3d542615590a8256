"""Model queries at embeddings: values, gradients, baselines, and batches of limited size."""

import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.core.errors import NotCapturable
from whence.data.batches import BatchRules, collate
from whence.explain.inputs import encode_inputs
from whence.models.load import load_model
from whence.tracing.ask import ModelQuery
from whence.tracing.target import TargetSpec
from whence.tracing.trace import run_traced

# These compute their norms in float32 whatever the model's dtype.
ROUGH = {"llama", "qwen3", "gemma3", "t5"}


def build_model_query(what, rows, *, size=64, cells=1024, of="logit", needs=("embedding_grad",)):
    loaded = load_model(what, dtype="float64")
    items, _ = encode_inputs(rows, loaded, truncate=False)
    batch = collate(items, pad_id=loaded.pad_id, device=loaded.device)
    seen = run_traced(
        loaded.model, batch, needs, TargetSpec.parse(1, loaded.labels, of), loaded.task
    )
    policy = BatchRules(size, cells, True, loaded.anchors)
    ask = ModelQuery(
        loaded.model, batch, seen.logits, seen.targets, fillers=loaded.fillers, pad_id=loaded.pad_id, policy=policy
    )  # fmt: skip
    return ask, seen


def xlnet():
    config = hf.XLNetConfig(
        vocab_size=64, d_model=32, n_layer=2, n_head=4, d_inner=48, num_labels=3, pad_token_id=5
    )
    return zoo.seeded(lambda: hf.XLNetForSequenceClassification(config)).double().eval()


@pytest.mark.parametrize("name", zoo.ARCHITECTURES)
def test_model_query_at_embeddings_of_another_text_equals_the_model_on_that_text(name):
    """However often and in whatever order a model looks its tokens up; padded, and in several batches."""
    model = zoo.make(name)
    others = zoo.rows(name, seed=1)
    vectors = build_model_query(model, others)[0].embeddings
    ask, _ = build_model_query(model, zoo.rows(name), size=2)
    points = [(row, vectors[row]) for row in (0, 1, 2, 0)]
    found = ask.at(points)
    for (row, _), value in zip(points, found, strict=True):
        with torch.no_grad():
            wanted = model(input_ids=torch.tensor([others[row]["input_ids"]])).logits[0, 1]
        torch.testing.assert_close(value, wanted, rtol=0, atol=1e-6 if name in ROUGH else 1e-12)
    assert (ask.forwards, ask.backwards) == ([2, 1, 1], [0, 0, 0])


@pytest.mark.parametrize("name", [*zoo.ARCHITECTURES, "xlnet"])
def test_model_query_slopes_at_own_embeddings_equal_the_traced_gradient(name):
    model = xlnet() if name == "xlnet" else zoo.make(name)
    rows = zoo.rows(name, lengths=(7, 7) if name == "xlnet" else (9, 5, 7))
    for of in ("logit", "probability"):
        ask, seen = build_model_query(model, rows, of=of)
        for row, slope in enumerate(ask.slopes(enumerate(ask.embeddings))):
            own = seen.embedding_grad[row, : len(slope)]
            tolerance = 1e-5 if name in ROUGH else 1e-11
            torch.testing.assert_close(slope, own, rtol=tolerance, atol=tolerance)
        assert ask.forwards == ask.backwards == [1] * len(rows)


def test_model_query_of_xlnet_with_as_many_inputs_as_tokens_equals_its_base():
    """XLNet turns its inputs round; a square does not show that by its shape."""
    ask, _ = build_model_query(xlnet(), zoo.rows("xlnet", lengths=(3, 3, 3)), needs=())
    torch.testing.assert_close(ask.at(enumerate(ask.embeddings)), ask.base())


def test_model_query_slopes_equal_central_differences():
    """Central differences along a random direction, at a point that is no text."""
    ask, _ = build_model_query(zoo.make("bart"), zoo.rows("bart"))
    generator = torch.Generator().manual_seed(0)
    for row, own in enumerate(ask.embeddings):
        point, way = (
            own + 0.1 * torch.randn(own.shape, generator=generator, dtype=own.dtype)
            for _ in range(2)
        )
        (slope,) = ask.slopes([(row, point)])
        ahead, behind = ask.at([(row, point + 1e-4 * way), (row, point - 1e-4 * way)])
        # The error is 1e-8 times a third derivative, and 1e-15 / 1e-4 of the values.
        assert (slope * way).sum().item() == pytest.approx((ahead - behind).item() / 2e-4, rel=1e-5)


def test_model_query_slopes_take_no_more_points_ahead_than_a_batch_holds():
    """50 steps of a long text must not all be in memory."""
    ask, _ = build_model_query(zoo.make("bert"), zoo.rows("bert", lengths=(9, 5)), cells=30)
    taken, given = [], 0
    points = (
        (row, taken.append(row) or own) for row, own in enumerate(ask.embeddings) for _ in range(20)
    )
    ahead = []
    for _ in ask.slopes(points):
        given += 1
        ahead.append(len(taken) - given)
    assert given == 40
    # Three inputs of nine tokens fill 30 cells, and six of five; one more shows that it is so.
    assert max(ahead[:20]) <= 3
    assert max(ahead) <= 6
    assert ask.backwards == [20, 20]


def test_model_query_baselines_are_pad_mask_zero_or_mean_embeddings():
    ask, _ = build_model_query("reviews", "a fine film")
    loaded = load_model("reviews", dtype="float64")
    table = loaded.model.get_input_embeddings().weight.detach()
    for kind, wanted in {
        "pad": table[loaded.pad_id],
        "mask": table[loaded.tokenizer.mask_token_id],
        "zero": torch.zeros_like(table[0]),
        "mean": table.mean(0),
    }.items():
        found = ask.baselines(kind)[0]
        torch.testing.assert_close(found, wanted.expand_as(found), rtol=1e-12, atol=1e-12)
    (kept,), (pad,), (own,) = (
        ask.baselines("pad", keep_special=True),
        ask.baselines("pad"),
        ask.embeddings,
    )
    assert torch.equal(kept[1:-1], pad[1:-1])
    assert torch.equal(kept[[0, -1]], own[[0, -1]])


def test_model_query_baselines_of_gemma_are_scaled_like_its_embeddings():
    """Gemma multiplies what it looks up; zero is zero, but a mean or a padding token must be scaled, too."""
    model = zoo.make("gemma3")
    ask, seen = build_model_query(model, zoo.rows("gemma3"))
    torch.testing.assert_close(ask.embeddings[0], seen.embedding[0])
    every = model.get_input_embeddings()(torch.arange(64)).detach()
    torch.testing.assert_close(ask.baselines("mean")[0][0], every.mean(0))
    torch.testing.assert_close(ask.baselines("pad")[0][0], every[0])


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_integrated_gradients_leaves_the_model_unchanged_after_an_error(error):
    model = zoo.make("t5").train()
    explainer = whence.load(model)
    calls = 0

    def fail(*_):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise error("in the middle")

    handle = model.register_forward_hook(fail)
    before = snapshot(model)
    with pytest.raises(error, match="in the middle"):
        explainer.explain(zoo.rows("t5")[0], method="integrated_gradients")
    assert_unchanged(before, snapshot(model))
    handle.remove()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["integrated_gradients", "smoothgrad", "gradient_shap", "lime"])
def test_explain_inside_no_grad_or_inference_mode_gives_equal_scores(name, mode):
    explainer = whence.load(zoo.make("bert"))
    wanted = explainer.explain(zoo.rows("bert"), method=name)
    with mode():
        found = explainer.explain(zoo.rows("bert"), method=name)
    for one, other in zip(found, wanted, strict=True):
        assert (one.scores == other.scores).all()


def test_explain_of_a_model_that_embeds_changed_ids_raises_not_capturable():
    model = zoo.make("bert")
    handle = model.bert.embeddings.word_embeddings.register_forward_pre_hook(
        lambda _, args: (args[0].clamp(max=20),)
    )
    with pytest.raises(NotCapturable, match="not those of the input"):
        whence.load(model).explain(zoo.rows("bert")[0], method="integrated_gradients")
    handle.remove()


def test_explain_of_a_model_that_bypasses_its_embedding_raises_not_capturable():
    model = zoo.make("bert")
    table = model.get_input_embeddings()
    handle = model.register_forward_pre_hook(
        lambda _, args, kwargs: (
            args,
            {**kwargs, "input_ids": None, "inputs_embeds": table.weight[kwargs["input_ids"]]},
        ),
        with_kwargs=True,
    )
    with pytest.raises(NotCapturable, match="never looked its input up"):
        whence.load(model).explain(zoo.rows("bert")[0], method="integrated_gradients")
    handle.remove()
