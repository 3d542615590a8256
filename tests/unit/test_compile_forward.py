"""Compiled forward passes: the same answers, the model left unchanged, and fallbacks with a warning."""

import shutil

import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from whence.core.errors import ModelFailed
from whence.data.batches import collate
from whence.explain.inputs import encode_inputs
from whence.tracing import forward
from whence.tracing.ask import count_forwards
from whence.tracing.forward import compile_forward, compute_plain_logits
from whence.tracing.restore import alter_model

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="no compiler on this machine"
)


def make_small_bert():
    config = hf.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    return zoo.seeded(lambda: hf.BertForSequenceClassification(config)).eval()


def batch_of(model, *rows):
    items, _ = encode_inputs(
        [{"input_ids": row} for row in rows], whence.load(model).loaded, truncate=False
    )
    return collate(items, pad_id=0, device=torch.device("cpu"))


@needs_compiler
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # PyTorch's compiler is told so by PyTorch
def test_compiled_model_gives_the_same_scores_and_is_left_unchanged():
    model, plain = make_small_bert(), make_small_bert()
    facts = set(vars(model))
    explainer = whence.load(model, compile=True)
    row = {"input_ids": [3, 7, 9, 11, 13]}
    # Found out once: that the model says the same by itself, and beside other inputs.
    explainer.explain(row, method="leave_one_out")
    with count_forwards(
        model
    ) as runs:  # that it cannot be compiled would be a warning, and so an error
        found = explainer.explain(row, method="leave_one_out")
    wanted = whence.load(plain).explain(row, method="leave_one_out")
    assert forward.is_compiled(model)
    assert runs.forward == found.passes.forward  # hooks on the model itself see every call
    # Differences of probabilities of about 0.5, each rounded a few times by 2^-24.
    assert found.scores == pytest.approx(wanted.scores, abs=2e-6)
    assert set(vars(model)) == facts
    assert model.forward.__func__ is hf.BertForSequenceClassification.forward
    # A trace is not compiled: it sees every layer.
    maps = explainer.trace(row).layer(0).map()
    assert torch.allclose(maps, whence.load(plain).trace(row).layer(0).map(), atol=1e-6)


def refuse(*_, **__):
    raise RuntimeError("no C++ compiler\nand a long story")


def test_compile_forward_that_fails_falls_back_with_one_warning(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: refuse)
    model = make_small_bert()
    compile_forward(model)
    batch = batch_of(model, [3, 7, 9], [3, 8, 9])
    with pytest.warns(
        RuntimeWarning, match=r"cannot be compiled on this machine \(no C\+\+ compil"
    ):
        found = compute_plain_logits(model, batch)
    assert not forward.is_compiled(model)
    again = compute_plain_logits(model, batch)  # and says so once: a warning is an error here
    assert torch.equal(found, again)
    assert torch.equal(found, compute_plain_logits(make_small_bert(), batch))


def test_compute_plain_logits_of_a_hooked_or_altered_model_is_not_compiled(monkeypatch):
    asked = []

    def stand_in(function, **_):
        def run(*args, **kwargs):
            asked.append(1)
            return function(*args, **kwargs)

        return run

    monkeypatch.setattr(torch, "compile", stand_in)
    model = make_small_bert()
    batch = batch_of(model, [3, 7, 9])
    compile_forward(model)
    compute_plain_logits(model, batch)
    assert len(asked) == 1
    with alter_model(model, "nothing in fact"):
        compute_plain_logits(model, batch)
    hook = model.bert.encoder.layer[0].register_forward_hook(lambda *_: None)
    compute_plain_logits(model, batch)
    hook.remove()
    assert len(asked) == 1
    compute_plain_logits(model, batch)
    assert len(asked) == 2
    assert "forward" not in vars(model)


def test_error_of_the_compiled_model_itself_raises_model_failed(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    model = make_small_bert()
    compile_forward(model)
    batch = batch_of(model, [3, 7, 9])
    with monkeypatch.context() as patch, pytest.raises(ModelFailed, match="own"):
        patch.setattr(
            model.bert, "forward", lambda *_, **__: (_ for _ in ()).throw(ValueError("own"))
        )
        compute_plain_logits(model, batch)
    assert "forward" not in vars(model)


def test_out_of_memory_in_a_compiled_model_leaves_the_model_compiled(monkeypatch):
    def too_large(*_, **__):
        raise RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
        )

    monkeypatch.setattr(torch, "compile", lambda function, **_: too_large)
    model = make_small_bert()
    compile_forward(model)
    with pytest.raises(RuntimeError, match="can't allocate"):
        compute_plain_logits(model, batch_of(model, [3, 7, 9]))
    assert forward.is_compiled(model)
