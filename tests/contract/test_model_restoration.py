"""Model restoration: explain leaves the model unchanged after success, errors and interrupts, and in threads."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.methods import method
from whence.tracing.attention_interface import IMPLEMENTATION_NAME, route_attention

# One of each way attention is captured: the seam, recognition, two streams, shared layers, sliding windows, one row.
MODELS = ["bert", "albert", "deberta-v2", "gpt2", "gemma3", "t5", "bilstm"]


def list_working_methods(name: str) -> list[str]:
    everywhere = [
        "gradient", "grad_x_input", "integrated_gradients", "smoothgrad", "gradient_shap", "leave_one_out",
        "occlusion", "lime", "kernel_shap", "random",
    ]  # fmt: skip
    if name in zoo.POOLING:
        return [*everywhere, "raw_attention", "attention_gradient", "attention_gradcam"]
    return everywhere if name in zoo.TWO_STREAMS else method.names()


def explain_all(explainer, name):
    return explainer.explain(zoo.rows(name), method=list_working_methods(name))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_explain_leaves_the_model_unchanged_after_success(name, training):
    model = zoo.make(name).train(training)
    # A mixture, as in partial fine-tuning: whence must not tidy it up.
    for number, weight in enumerate(model.parameters()):
        weight.requires_grad_(number % 3 == 0)
    next(iter(model.children())).training = not training
    before = snapshot(model)
    explain_all(whence.load(model), name)
    assert_unchanged(before, snapshot(model))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", MODELS)
def test_explain_leaves_the_model_unchanged_after_a_raise_in_the_forward_pass(name, error):
    model = zoo.make(name).train()
    calls = 0

    def fail(*_):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise error("in the middle")

    often = "linear" if name in zoo.POOLING else "norm"
    parts = [part for part in model.modules() if often in type(part).__name__.lower()]
    handles = [part.register_forward_hook(fail) for part in parts]
    before = snapshot(model)
    with pytest.raises(error, match="in the middle"):
        explain_all(whence.load(model), name)
    assert_unchanged(before, snapshot(model))
    for handle in handles:
        handle.remove()


def test_explain_leaves_the_model_unchanged_after_a_raise_in_the_backward_pass():
    model = zoo.make("bert")

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("no way back")

    handle = model.classifier.register_forward_pre_hook(lambda _, args: (Broken.apply(args[0]),))
    before = snapshot(model)
    with pytest.raises(RuntimeError, match="no way back"):
        whence.load(model).explain(zoo.rows("bert"), method="attcat")
    assert_unchanged(before, snapshot(model))
    handle.remove()


def test_explain_leaves_the_model_unchanged_after_an_error_of_a_method():
    model = zoo.make("bert")
    before = snapshot(model)
    with pytest.raises(whence.WhenceError, match="no layer 7"):
        whence.load(model).explain(zoo.rows("bert"), method="raw_attention", params={"layer": 7})
    assert_unchanged(before, snapshot(model))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_explain_inside_no_grad_or_inference_mode_gives_identical_scores(mode):
    model = zoo.make("bert")
    explainer = whence.load(model)
    wanted = explainer.explain(zoo.rows("bert"), method="attcat")
    with mode():
        found = explainer.explain(zoo.rows("bert"), method="attcat")
        assert not torch.is_grad_enabled()
    for one, other in zip(found, wanted, strict=True):
        assert (one.scores == other.scores).all()


def test_explain_of_one_model_does_not_affect_another_model_meanwhile():
    first, second = zoo.make("gpt2"), zoo.make("bert", seed=1)
    ids = torch.tensor([zoo.rows("bert")[0]["input_ids"]])
    wanted = second(input_ids=ids).logits
    seen = []
    handle = first.transformer.h[1].register_forward_hook(
        lambda *_: seen.append((second(input_ids=ids).logits, second.config._attn_implementation))
    )
    methods = ["generic_attention", "gradient", "transformer_attribution", "decompx"]
    whence.load(first).explain(zoo.rows("gpt2"), method=methods)
    handle.remove()
    assert seen
    assert all((logits == wanted).all() and name == "sdpa" for logits, name in seen)


def test_route_attention_of_two_models_with_one_config_restores_both_models():
    """Each has turns of its own, so that one may be done while the other is still switched, in another thread."""
    first = zoo.make("bert")
    second = type(first)(first.config)
    assert second.config is first.config
    kind, opened, done, seen = type(first.config), Event(), Event(), []

    def hold():
        with route_attention(first, None):
            opened.set()
            done.wait(30)
            seen.append(first.config._attn_implementation)

    thread = Thread(target=hold)
    thread.start()
    opened.wait(30)
    assert second.config._attn_implementation == "sdpa"
    with route_attention(second, None):
        assert second.config._attn_implementation == IMPLEMENTATION_NAME
    assert second.config._attn_implementation == "sdpa"
    done.set()
    thread.join()
    assert seen == [IMPLEMENTATION_NAME]
    assert first.config._attn_implementation == "sdpa"
    assert type(first.config) is kind


def test_explain_between_training_steps_leaves_the_gradients_unchanged():
    def step(model, explained):
        torch.manual_seed(3)
        ids = torch.tensor([zoo.rows("bert")[0]["input_ids"]])
        model.train()
        model(input_ids=ids, labels=torch.tensor([1])).loss.backward()
        if explained:
            whence.load(model).explain(zoo.rows("bert"), method=["attcat", "leave_one_out"])
        model(input_ids=ids, labels=torch.tensor([2])).loss.backward()
        return [w.grad for w in model.parameters()]

    plain = step(zoo.make("bert"), explained=False)
    with_whence = step(zoo.make("bert"), explained=True)
    assert all(torch.equal(a, b) for a, b in zip(plain, with_whence, strict=True))


def test_explain_in_four_threads_on_one_model_equals_sequential_scores():
    model = zoo.make("bert")
    before = snapshot(model)
    explainer = whence.load(model)
    rows = zoo.rows("bert", lengths=(5, 6, 7, 8))
    wanted = [explainer.explain(row, method=["attcat", "leave_one_out"]) for row in rows]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(
                pool.map(
                    lambda row: explainer.explain(row, method=["attcat", "leave_one_out"]), rows
                )
            )
            for one, other in zip(found, wanted, strict=True):
                assert all((one[name].scores == other[name].scores).all() for name in one.methods)
    assert_unchanged(before, snapshot(model))


def test_explain_of_a_short_text_leaves_bigbird_with_block_sparse_attention():
    config = hf.BigBirdConfig(
        **{**zoo._BERT, "max_position_embeddings": 128}, attention_type="block_sparse", block_size=4,
        num_random_blocks=1, bos_token_id=2, eos_token_id=3, sep_token_id=3,
    )  # fmt: skip
    model = zoo.seeded(lambda: hf.BigBirdForSequenceClassification(config)).eval()
    ids = torch.tensor(
        [[4 + i % 50 for i in range(64)]]
    )  # longer than what is attended to fully, 28
    before, modules = snapshot(model), dict(model.named_modules())
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
    explainer = whence.load(model)
    for method_ in ("grad_x_input", "attcat", "leave_one_out"):
        explainer.explain({"input_ids": [5, 6, 7, 8]}, method=method_)
    explainer.predict({"input_ids": [5, 6, 7, 8]})
    assert model.bert.attention_type == model.bert.encoder.attention_type == "block_sparse"
    assert all(one is modules[name] for name, one in model.named_modules())
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, wanted)
    assert_unchanged(before, snapshot(model))
