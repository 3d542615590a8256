"""A model that is compiled, where that was asked for: the same answers, and the model as it was."""

import shutil

import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from whence.capture import bare_logits, compile_forward
from whence.capture.asking.counted import counted
from whence.capture.found import altering
from whence.capture.memory import compiled
from whence.core.errors import ModelFailed
from whence.data import collate
from whence.explainer.intake import take

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="no compiler on this machine"
)


def small():
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
    items, _ = take([{"input_ids": row} for row in rows], whence.load(model).loaded, truncate=False)
    return collate(items, pad_id=0, device=torch.device("cpu"))


@needs_compiler
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # PyTorch's compiler is told so by PyTorch
def test_the_same_answers_and_the_model_as_it_was():
    model, plain = small(), small()
    facts = set(vars(model))
    explainer = whence.load(model, compile=True)
    row = {"input_ids": [3, 7, 9, 11, 13]}
    # Found out once: that the model says the same by itself, and beside other inputs.
    explainer.explain(row, method="leave_one_out")
    with counted(model) as runs:  # that it cannot be compiled would be a warning, and so an error
        found = explainer.explain(row, method="leave_one_out")
    wanted = whence.load(plain).explain(row, method="leave_one_out")
    assert compiled.is_compiled(model)
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


def test_what_cannot_be_compiled_runs_as_it_is_and_one_warning_says_so(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: refuse)
    model = small()
    compile_forward(model)
    batch = batch_of(model, [3, 7, 9], [3, 8, 9])
    with pytest.warns(
        RuntimeWarning, match=r"cannot be compiled on this machine \(no C\+\+ compil"
    ):
        found = bare_logits(model, batch)
    assert not compiled.is_compiled(model)
    again = bare_logits(model, batch)  # and says so once: a warning is an error here
    assert torch.equal(found, again)
    assert torch.equal(found, bare_logits(small(), batch))


def test_what_is_hooked_or_altered_is_not_compiled(monkeypatch):
    asked = []

    def stand_in(function, **_):
        def run(*args, **kwargs):
            asked.append(1)
            return function(*args, **kwargs)

        return run

    monkeypatch.setattr(torch, "compile", stand_in)
    model = small()
    batch = batch_of(model, [3, 7, 9])
    compile_forward(model)
    bare_logits(model, batch)
    assert len(asked) == 1
    with altering(model, "nothing in fact"):
        bare_logits(model, batch)
    hook = model.bert.encoder.layer[0].register_forward_hook(lambda *_: None)
    bare_logits(model, batch)
    hook.remove()
    assert len(asked) == 1
    bare_logits(model, batch)
    assert len(asked) == 2
    assert "forward" not in vars(model)


def test_a_failure_of_the_model_itself_is_said_to_be_its_own(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    model = small()
    compile_forward(model)
    batch = batch_of(model, [3, 7, 9])
    with monkeypatch.context() as patch, pytest.raises(ModelFailed, match="own"):
        patch.setattr(
            model.bert, "forward", lambda *_, **__: (_ for _ in ()).throw(ValueError("own"))
        )
        bare_logits(model, batch)
    assert "forward" not in vars(model)


def test_memory_that_ran_out_says_nothing_about_compiling(monkeypatch):
    def too_large(*_, **__):
        raise RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
        )

    monkeypatch.setattr(torch, "compile", lambda function, **_: too_large)
    model = small()
    compile_forward(model)
    with pytest.raises(RuntimeError, match="can't allocate"):
        bare_logits(model, batch_of(model, [3, 7, 9]))
    assert compiled.is_compiled(model)
