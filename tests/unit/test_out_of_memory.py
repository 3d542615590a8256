"""Out of memory: batches are halved, and the results equal those of an undisturbed run."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from whence.core.errors import ModelFailed, OutOfMemory
from whence.explain.inputs import encode_inputs
from whence.explain.tasks import read_logits
from whence.metrics._requests import Noise
from whence.tracing.out_of_memory import RetryHalved, is_out_of_memory

MOST = 60  # cells
READERS = ["generic_attention", "attcat", "transformer_attribution"]
ASKERS = ["leave_one_out", "integrated_gradients", "kernel_shap"]
FEW = {
    "integrated_gradients": {"steps": 16},
    "kernel_shap": {"samples": 160},
}  # still more than MOST


def limit_batch_cells(model, most=MOST):
    """Let a model fail, as an accelerator does, on batches of more than so many cells."""

    def refuse(_, args, named):
        ids = named["input_ids"]
        if ids.numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    model.register_forward_pre_hook(refuse, with_kwargs=True)
    return model


def assert_same_explanations(one, other):
    for own, found in zip(one, other, strict=True):
        for name, _ in own.items():
            # Products of smaller batches are summed in another order.
            np.testing.assert_allclose(found[name].scores, own[name].scores, rtol=1e-9, atol=1e-12)
            assert found[name].passes == own[name].passes


@pytest.mark.parametrize("methods", [READERS, ASKERS])
def test_explain_out_of_memory_halves_batches_warns_once_and_remembers_the_size(methods):
    given = zoo.rows("bert", (9, 5, 7, 9, 8, 9, 6))
    how = {"method": methods, "params": FEW if methods is ASKERS else {}}
    expected = whence.load(zoo.make("bert")).explain(given, **how)
    model = limit_batch_cells(zoo.make("bert"))
    explainer = whence.load(model)
    runs = []
    model.register_forward_hook(
        lambda _, __, named, ___: runs.append(named["input_ids"].shape), with_kwargs=True
    )
    with pytest.warns(UserWarning, match="The memory is too small for .* inputs at a time") as said:
        assert_same_explanations(expected, explainer.explain(given, **how))
    assert len(said) == 1
    assert all(inputs * tokens <= MOST for inputs, tokens in runs)
    # Nothing is said, tried or lost the second time (a warning is an error here).
    failed = []
    hook = model.register_forward_pre_hook(lambda *_: failed.append(1))
    runs.clear()
    assert_same_explanations(expected, explainer.explain(given, **how))
    hook.remove()
    assert len(failed) == len(runs)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemory("one input is too large"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
    ],
)
def test_is_out_of_memory_is_true_of_memory_errors_and_false_of_others(error):
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(KeyError("out of memory"))


def test_explain_and_predict_of_one_input_too_large_raise_out_of_memory():
    model = zoo.make("bert")
    explainer = whence.load(model)
    limit_batch_cells(model, most=8)
    words = r"One input of 9 tokens is too large for the memory\..*--checkpoint.*CUDA out of memory"
    with pytest.raises(OutOfMemory, match=words) as raised:
        explainer.explain(zoo.rows("bert", (9,)), method="attcat")
    assert raised.value.exit_status == 38
    with pytest.raises(OutOfMemory):
        explainer.predict(zoo.rows("bert", (9,)))


def test_explain_raises_other_errors_of_the_model_as_model_failed():
    model = zoo.make("bert")
    model.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ModelFailed, match="ZeroDivisionError"):
        whence.load(model).explain(zoo.rows("bert"), method="attcat")


def test_retry_halved_gives_every_part_once_in_order_and_remembers_the_size():
    model, done = torch.nn.Linear(1, 1), []
    work = RetryHalved(model, "x", [[1, 2, 3, 4, 5], [6, 7]], len)
    with pytest.warns(UserWarning, match="too small for 5 inputs at a time: going on with 3"):
        for part in work:
            with work.retry_halved(part):
                if len(part) > 2:
                    raise MemoryError
                done.append(list(part))
    assert done == [[1, 2], [3], [4, 5], [6, 7]]
    again = RetryHalved(model, "x", [[1, 2, 3, 4]], len)
    assert [list(part) for part in again] == [[1, 2], [3, 4]]
    assert [list(part) for part in RetryHalved(model, "y", [[1, 2, 3, 4]], len)] == [[1, 2, 3, 4]]


def test_predict_and_trials_in_halved_batches_equal_the_undisturbed_ones():
    given = zoo.rows("bert", (9, 5, 7, 9, 8, 9, 6, 9))
    plain, tight = whence.load(zoo.make("bert")), whence.load(limit_batch_cells(zoo.make("bert")))
    with pytest.warns(UserWarning, match="too small"):
        found = tight.predict(given)
    for own, one in zip(plain.predict(given), found, strict=True):
        np.testing.assert_allclose(own.logits, one.logits, rtol=1e-9)
    how = {"method": ["attcat", "rollout"], "remove": "pad"}
    both = zip(plain.trials(given, **how), tight.trials(given, **how), strict=True)
    for (number, trial, own), (other, tried, one) in both:
        assert number == other
        assert_same_explanations([own], [one])
        np.testing.assert_allclose(
            tried.again(Noise(0.01, 0)).scores, trial.again(Noise(0.01, 0)).scores, rtol=1e-9
        )
        assert tried.again.passes == trial.again.passes


def test_trust_card_in_halved_batches_has_the_same_verdicts():
    (given,) = zoo.rows("bert", (9,))
    plain, tight = whence.load(zoo.make("bert")), whence.load(limit_batch_cells(zoo.make("bert")))
    expected = plain.trust(given, method="attcat", remove="pad")
    with pytest.warns(UserWarning, match="too small"):
        card = tight.trust(given, method="attcat", remove="pad")
    assert card.verdicts == expected.verdicts
    tests = [one.payload["methods"][0]["tests"] for one in (card, expected)]
    assert [test["verdict"] for test in tests[0]] == [test["verdict"] for test in tests[1]]


@pytest.mark.skipif(
    sys.platform != "linux", reason="only there a process can be given so much and no more"
)
def test_explain_under_a_real_memory_limit_halves_batches_and_finishes():
    """Thirty-two long inputs by a process that may take 400 MB more than it has, where together they take more."""
    code = """
    import os, resource, warnings
    import numpy as np, torch, transformers as hf
    import whence
    from whence.explain import batch_policy

    torch.set_num_threads(1)
    batch_policy.count_free_bytes = lambda device: None  # the bound would see to it that nothing fails
    batch_policy._CPU_CELLS = 1 << 20
    config = hf.BertConfig(hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4,
                           vocab_size=64, max_position_embeddings=512, num_labels=3)
    torch.manual_seed(0)
    explainer = whence.load(hf.BertForSequenceClassification(config).eval())
    draw = torch.Generator().manual_seed(0)
    given = [{"input_ids": torch.randint(4, 64, (400,), generator=draw).tolist()} for _ in range(32)]
    first = explainer.explain(given[:1], method="generic_attention")[0].scores
    for line in open("/proc/self/status"):
        if line.startswith("VmSize"):
            now = int(line.split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (now + (400 << 20),) * 2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = explainer.explain(given, method="generic_attention")
    print([str(one.message) for one in said if "memory" in str(one.message)])
    print(len(found), float(np.abs(found[0].scores - first).max()) < 1e-5)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, found = done.stdout.splitlines()[-2:]
    assert said.count("The memory is too small for 32 inputs at a time") == 1
    assert found == "32 True"


def test_audit_in_halved_batches_gives_the_same_numbers():
    """Its own traces, gradients and replays; attention of Bert, so that there are rows to replace."""
    texts = ["a fine film", "a dull film with a fine end", "a film", "not a dull film at all"] * 2
    experiments = ["correlation", "permutation"]
    settings = {"experiments": experiments}
    expected = whence.audit(whence.load("reviews"), texts, **settings)
    explainer = whence.load("reviews")
    limit_batch_cells(explainer.model, most=60)
    with pytest.warns(UserWarning, match="The memory is too small"):
        found = whence.audit(explainer, texts, **settings)
    ours, wanted = (_numbers(one.to_dict()["experiments"]) for one in (found, expected))
    # In float32, and batches of another size are summed in another order.
    assert len(wanted) > 10 and ours == pytest.approx(wanted, abs=1e-4)


def _numbers(tree):
    """Return the numbers of a nested result, in order, but for how long things took."""
    if isinstance(tree, dict):
        return [one for key in sorted(tree) if "second" not in key for one in _numbers(tree[key])]
    if isinstance(tree, list):
        return [one for part in tree for one in _numbers(part)]
    return [tree] if isinstance(tree, float) else []


def test_read_logits_in_halved_batches_equals_the_undisturbed_logits():
    given = zoo.rows("bert", (9, 5, 7, 9, 8, 9, 6))
    loaded = whence.load(zoo.make("bert")).loaded
    items, _ = encode_inputs(given, loaded, truncate=False)
    expected = read_logits(loaded, items)
    less = whence.load(
        limit_batch_cells(zoo.make("bert"), most=40)
    ).loaded  # the probe of three fits
    with pytest.warns(UserWarning, match="The memory is too small"):
        found = read_logits(less, items)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
