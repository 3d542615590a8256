"""Training checkpoints: the best epoch is selected, and an interrupted `fit` resumes to the same weights."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from tests.progress_news import NewsListener
from tests.trainings import QUICK, attentive, bert, row, same_weights, texts, weights
from whence.core.errors import BadParameter, CannotRead
from whence.studies.training.fit import Epoch, fit
from whence.studies.training.performance import measure_performance
from whence.studies.training.recipe import RECIPES

# --- which epoch ---


def fit_with_scores(scores, patience=None):
    """Train with given scores; return the result, the model's weights and those after each epoch."""
    model, after, given = attentive(), [], iter(scores)
    recipe = replace(QUICK, epochs=len(scores), patience=patience)
    found = fit(
        model, texts(), recipe, pad_id=0,
        select=lambda model, loss: next(given), progress=NewsListener(lambda _: after.append(weights(model))),
    )  # fmt: skip
    return found, weights(model), after


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ((9, 1, 3, 2), 3),  # the first epoch is never chosen
        ((9, 3, 3, 2), 2),  # of equals the earlier
        ((1, 2, 3, 4), 4),
        ((5,), 1),  # unless there is no other
        ((0.0, -3.0, -2.0), 3),
    ],
)
def test_fit_ends_with_the_weights_of_the_best_epoch(scores, best):
    found, ended, after = fit_with_scores(scores)
    assert found.best_epoch == best
    assert [epoch.score for epoch in found.history] == list(scores)
    assert same_weights(ended, after[best - 1])
    assert not any(same_weights(ended, other) for n, other in enumerate(after, 1) if n != best)


def test_fit_stops_after_patience_epochs_without_improvement():
    found, ended, after = fit_with_scores((1, 5, 4, 3, 9, 9), patience=2)
    assert len(found.history) == 4
    assert found.best_epoch == 2
    assert same_weights(ended, after[1])


def test_fit_selects_the_best_epoch_by_roc_auc_and_then_by_accuracy():
    rows, dev = texts(40), texts(20, seed=1)
    model = attentive()
    found = fit(model, rows, replace(QUICK, epochs=6), pad_id=0, dev=dev)
    for epoch in found.history:
        assert epoch.score == epoch.dev.roc_auc
    merits = [(epoch.dev.roc_auc, epoch.dev.accuracy) for epoch in found.history[1:]]
    assert found.best_epoch == 2 + merits.index(max(merits))
    assert measure_performance(model, dev, pad_id=0) == found.best.dev
    # With one label on the other side there is no curve.
    alone = [one for one in dev if one.label]
    found = fit(attentive(), rows, replace(QUICK, epochs=2), pad_id=0, dev=alone)
    assert found.history[0].score == found.history[0].dev.accuracy


# --- going on ---


class Killed(BaseException):
    """Whatever ends a process."""


def stop_after(examples):
    """Stop a training from within after so many examples."""

    def progress(done, total):
        if done >= examples:
            raise Killed

    return progress


MODELS = {
    "bilstm": (lambda: attentive(encoder="bilstm"), QUICK, 20),
    "bert": (bert, replace(RECIPES["transformer"], epochs=3, batch_size=5, learning_rate=1e-3), 60),
}


@pytest.mark.parametrize("name", MODELS)
def test_fit_interrupted_several_times_resumes_to_the_same_weights(tmp_path, name):
    maker, recipe, vocabulary = MODELS[name]
    rows, dev = texts(12, vocabulary=vocabulary), texts(6, seed=1, vocabulary=vocabulary)
    straight = maker()
    whole = fit(straight, rows, recipe, pad_id=0, dev=dev)
    # Within the first epoch, at the end of the first, within the second, and at once.
    for examples in (3, 12, 20, 0):
        with pytest.raises(Killed):
            fit(
                maker(), rows, recipe, pad_id=0, dev=dev, keep=tmp_path / "kept",
                progress=stop_after(examples),
            )  # fmt: skip
    seen = []
    model = maker()
    found = fit(
        model,
        rows,
        recipe,
        pad_id=0,
        dev=dev,
        keep=tmp_path / "kept",
        progress=NewsListener(seen.append),
    )
    assert [e.number for e in seen if isinstance(e, Epoch)] == list(range(2, recipe.epochs + 1))
    assert same_weights(weights(model), weights(straight))
    assert found.best_epoch == whole.best_epoch
    assert [replace(e, seconds=0) for e in found.history] == [
        replace(e, seconds=0) for e in whole.history
    ]
    # Once more: nothing is left to do, and the weights are there.
    again = maker()
    assert fit(again, rows, recipe, pad_id=0, dev=dev, keep=tmp_path / "kept") == found
    assert same_weights(weights(again), weights(straight))
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["checkpoint.safetensors"]


def test_fit_ignores_half_written_checkpoint_files_of_a_killed_training(tmp_path):
    keep, rows = tmp_path / "kept", texts()
    straight = attentive()
    fit(straight, rows, QUICK, pad_id=0)
    with pytest.raises(Killed):
        fit(attentive(), rows, QUICK, pad_id=0, keep=keep, progress=stop_after(50))
    (keep / "checkpoint.part").write_bytes(b"half")  # killed while it wrote
    model = attentive()
    fit(model, rows, QUICK, pad_id=0, keep=keep)
    assert same_weights(weights(model), weights(straight))
    assert not list(keep.glob("*.part"))


def build_fit_arguments(**changes):
    given = {"model": attentive(), "rows": texts(), "recipe": QUICK, "dev": None, "about": {}}
    return {**given, **changes}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (build_fit_arguments(recipe=replace(QUICK, epochs=5, learning_rate=0.1)), "epochs was 4, now 5; learning_rate was 0.05"),
        (build_fit_arguments(rows=texts(22)), "training: training examples was '24', now '22'\\."),
        (build_fit_arguments(rows=[*texts()[1:], row([2, 7, 3], 0)]), "training: other training examples\\."),
        (build_fit_arguments(dev=texts(2)), "development examples was '0', now '2'\\."),
        (build_fit_arguments(model=attentive(seed=1)), "training: other first weights\\."),
        (build_fit_arguments(about={"lambda": 0.1}), "lambda was None, now 0.1"),
    ],
)  # fmt: skip
def test_fit_with_checkpoints_of_another_training_raises_bad_parameter(tmp_path, given, said):
    fit(**build_fit_arguments(), pad_id=0, keep=tmp_path)
    with pytest.raises(BadParameter, match=said) as refused:
        fit(**given, pad_id=0, keep=tmp_path)
    assert "keeps another training" in str(refused.value)
    assert "delete the folder to start anew" in str(refused.value)
    if "first weights" not in said:
        assert "first weights" not in str(refused.value)


@pytest.mark.parametrize(
    "state", ["{", "[]", '{"version": 99}', '{"version": 2, "about": {}}', None]
)
def test_fit_with_a_broken_state_raises_cannot_read_with_advice(tmp_path, state):
    weights = {"model/x": torch.zeros(1)}
    metadata = None if state is None else {"state": state}
    save_file(weights, tmp_path / "checkpoint.safetensors", metadata=metadata)
    with pytest.raises(CannotRead, match=r"is not the state of a training .* to start anew"):
        fit(**build_fit_arguments(), pad_id=0, keep=tmp_path)


def test_fit_with_a_broken_checkpoint_raises_cannot_read_with_advice(tmp_path):
    fit(**build_fit_arguments(), pad_id=0, keep=tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"broken")
    with pytest.raises(CannotRead, match=r"checkpoint.safetensors.* to start anew"):
        fit(**build_fit_arguments(), pad_id=0, keep=tmp_path)
