"""Query methods (integrated_gradients, lime, kernel_shap, ...): sums, limits, short inputs, bad parameters."""

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.reduced_params import FEW
from whence.core.errors import BadParameter

SLOPES = ["integrated_gradients", "smoothgrad", "gradient_shap"]
SETS = ["occlusion", "lime", "kernel_shap"]
TEXT = "the plot is thin, but the actors are wonderful"


@pytest.fixture(scope="module")
def bert():
    return whence.load(zoo.make("bert"))


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


def load_without_pad_token(name):
    model = zoo.make(name)
    model.config.pad_token_id = None
    return whence.load(model)


# --- sums ---


@pytest.mark.parametrize("name", zoo.ARCHITECTURES)
def test_integrated_gradients_have_a_small_completeness_residual_on_every_architecture(name):
    """Gauss and Legendre's rule converges fast on what is smooth, and like 1/steps where a ReLU bends."""
    found = whence.load(zoo.make(name)).explain(
        zoo.rows(name)[0], method="integrated_gradients", params={"steps": 150}
    )
    bends = {"distilbert", "t5"}
    float32_inside = {"llama", "qwen3", "gemma3", "modernbert"}  # norms, rotary positions
    bound = 0.1 if name in bends else 1e-5 if name in float32_inside else 1e-9
    assert abs(found.axioms["completeness"]) < bound


def test_integrated_gradients_sum_to_the_rise_of_the_target_above_the_baseline(bert):
    """The sum of the scores is the rise of what is explained: a logit, a probability, a contrast."""
    ids = zoo.rows("bert")[0]["input_ids"]
    with torch.no_grad():
        table = bert.model.get_input_embeddings()
        ends = table(torch.tensor([ids, [0] * len(ids)]))
        logits = bert.model(inputs_embeds=ends).logits
    for of, outputs in (("logit", logits), ("probability", logits.softmax(-1))):
        for target, value in ((1, outputs[:, 1]), ((0, 2), outputs[:, 0] - outputs[:, 2])):
            found = bert.explain(
                {"input_ids": ids}, method="integrated_gradients", target=target, of=of, params={"steps": 100}
            )  # fmt: skip
            rise = (value[0] - value[1]).item()
            assert found.scores.sum() == pytest.approx(rise, abs=1e-8)
            assert found.axioms["completeness"] == pytest.approx(
                found.scores.sum() - rise, abs=1e-12
            )


def test_integrated_gradients_with_one_step_report_a_large_completeness_residual(bert):
    found = bert.explain(
        zoo.rows("bert")[0], method="integrated_gradients", params={"steps": 1, "rule": "right"}
    )
    assert abs(found.axioms["completeness"]) > 1e-3


def test_kernel_shap_scores_sum_to_the_rise_of_probability_for_any_sample_count(reviews):
    for samples in (40, 100, 2048):
        found = reviews.explain(TEXT, method="kernel_shap", params={"samples": samples})
        masked = [token.id if token.special else reviews.fillers["mask"] for token in found.tokens]
        nothing = reviews.predict({"input_ids": masked}).probabilities[found.target.label]
        rise = found.prediction.probability - nothing
        assert found.scores.sum() == pytest.approx(rise, abs=1e-12)
        assert abs(found.axioms["completeness"]) < 1e-12


# --- limits ---


def test_gradient_shap_mean_over_seeds_is_near_integrated_gradients(bert):
    row = zoo.rows("bert")[0]
    exact = bert.explain(row, method="integrated_gradients").scores
    runs = np.array(
        [
            bert.explain(row, method="gradient_shap", params={"samples": 200, "seed": seed}).scores
            for seed in range(20)
        ]
    )
    error = runs.std(0, ddof=1) / np.sqrt(len(runs))
    # Unbiased: of nine scores none is 5 standard errors away (t with 19 degrees: 8 in 100 000 each).
    assert (np.abs(runs.mean(0) - exact) < 5 * error).all()
    assert error.max() < np.abs(exact).max() / 20


def test_smoothgrad_without_noise_equals_gradient_and_grad_x_input(bert):
    rows = zoo.rows("bert")
    for times_input, plain in ((False, "gradient"), (True, "grad_x_input")):
        params = {"noise": 0, "samples": 3, "times_input": times_input}
        smooth = bert.explain(rows, method="smoothgrad", params=params)
        for one, other in zip(smooth, bert.explain(rows, method=plain), strict=True):
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-12, atol=1e-14)
            assert one.signed == other.signed == times_input


def test_occlusion_with_window_one_equals_leave_one_out(bert, reviews):
    for explainer, given in ((bert, zoo.rows("bert")), (reviews, [TEXT, "a film"])):
        narrow = explainer.explain(given, method="occlusion", params={"window": 1})
        for one, other in zip(
            narrow, explainer.explain(given, method="leave_one_out"), strict=True
        ):
            assert (one.scores == other.scores).all()
            assert one.passes == other.passes


def test_occlusion_with_window_wider_than_the_text_equals_the_widest_possible_window(bert):
    row = zoo.rows("bert", lengths=(4,))[0]
    for remove, wide, windows in (("pad", 4, 1), ("delete", 3, 2)):
        params = {"window": 50, "remove": remove}
        found = bert.explain(row, method="occlusion", params=params)
        cut = bert.explain(row, method="occlusion", params={**params, "window": wide})
        assert (found.scores == cut.scores).all()
        assert found.passes.forward == 1 + windows
        assert len(set(found.scores.tolist())) == (1 if remove == "pad" else 3)


@pytest.mark.parametrize(("name", "samples"), [("kernel_shap", 200), ("lime", 250)])
def test_sampled_kernel_shap_and_lime_are_near_their_exact_scores(reviews, name, samples):
    """The exact answer takes all 1024 coalitions of ten tokens; a fifth of them gives it to a few percent."""
    exact = reviews.explain(TEXT, method=name, params={"samples": 100_000}).scores
    runs = np.array(
        [
            reviews.explain(TEXT, method=name, params={"samples": samples, "seed": seed}).scores
            for seed in range(10)
        ]
    )
    if name == "lime":  # the ridge of 1 is held against fewer samples
        exact = reviews.explain(
            TEXT, method=name, params={"samples": 100_000, "ridge": 99_999 / (samples - 1)}
        ).scores
    assert np.abs(runs - exact).max() < 0.15 * np.abs(exact).max()
    error = runs.std(0, ddof=1) / np.sqrt(len(runs))
    # As above, with 9 degrees of freedom; a ratio of two sums is biased by about a tenth of its own spread here.
    assert (np.abs(runs.mean(0) - exact) <= 5 * error + 0.1 * runs.std(0)).all()
    assert len({tuple(run) for run in runs}) == len(runs)  # another seed, other samples


# --- odd inputs ---


@pytest.mark.parametrize("name", [*SLOPES, *SETS])
def test_query_methods_on_one_token_give_one_finite_score(name):
    for explainer in (whence.load(zoo.make("bert")), whence.load(zoo.make("gpt2"))):
        params = {"remove": "pad"} if name in SETS else {}
        found = explainer.explain({"input_ids": [7]}, method=name, params=params)
        assert np.isfinite(found.scores).all()
        assert found.scores.shape == (1,)


def test_perturbation_methods_on_one_token_agree_and_need_two_forward_passes(bert):
    """With one player, Shapley's value and leaving it out are the same, and a line goes through two points."""
    given = {"input_ids": [7]}
    methods = ["leave_one_out", "occlusion", "kernel_shap", "lime"]
    params = {"remove": "pad", "lime.ridge": 0}
    found = bert.explain(given, method=methods, params=params)
    scores = [found[name].scores[0] for name in methods]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-9)
    assert {found[name].passes.forward for name in methods} == {2}


@pytest.mark.parametrize("name", [*SLOPES, *SETS])
def test_query_methods_on_special_tokens_only_give_finite_scores(reviews, name):
    ids = [reviews.tokenizer.cls_token_id, reviews.tokenizer.sep_token_id]
    together = reviews.explain(
        [{"input_ids": ids}, {"input_ids": [ids[0], 24, ids[1]]}], method=name
    )
    found = together[0]
    assert all(token.special for token in found.tokens)
    assert np.isfinite(found.scores).all()
    if name in {"lime", "kernel_shap"}:
        assert not found.scores.any()
        assert found.passes.forward == 1
        assert together[1].scores[1] != 0


def test_special_tokens_score_zero_by_lime_kernel_shap_and_keep_special(reviews):
    for name in ("lime", "kernel_shap"):
        found = reviews.explain(TEXT, method=name)
        outside = [s for s, token in zip(found.scores, found.tokens, strict=True) if token.special]
        assert outside == [0, 0]
    kept = reviews.explain(TEXT, method="integrated_gradients", params={"keep_special": True})
    assert kept.scores[0] == kept.scores[-1] == 0
    assert abs(kept.axioms["completeness"]) < 1e-6  # of 50 steps


@pytest.mark.parametrize("name", ["occlusion", "lime", "kernel_shap"])
def test_perturbation_methods_on_bart_score_only_the_end_token_zero(name):
    explainer = whence.load(zoo.make("bart"))
    rows = [{"input_ids": [3]}, {"input_ids": [9, 8, 3, 7, 3]}]
    for row in rows:
        found = explainer.explain(row, method=name)
        for identity, score in zip(row["input_ids"], found.scores, strict=True):
            assert (score == 0) == (identity == 3)


def test_explain_progress_of_query_methods_ends_at_its_total(reviews):
    """Special tokens that stay, and words that come twice, make for fewer calls than thought: the total follows."""
    seen = []
    texts = ["very very very good", "a dull film"]
    methods = ["lime", "kernel_shap", "occlusion", "integrated_gradients"]
    found = reviews.explain(
        texts, method=methods, params={"occlusion.remove": "delete"}, progress=lambda *x: seen.append(x)
    )  # fmt: skip
    made = sum(e.passes.forward - 1 for one in found for e in one.values()) + len(texts)
    assert seen[-1] == (made, made)
    assert all(done <= total for done, total in seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


# --- odd parameters and models ---


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("integrated_gradients", {"steps": 0}, "'steps' parameter .* from 1 to 1000. Got 0"),
        ("integrated_gradients", {"steps": 1, "rule": "trapezoid"}, "needs steps >= 2"),
        ("integrated_gradients", {"baseline": "mask"}, "has none. Possible here: pad, zero, mean"),
        ("gradient_shap", {"baseline": "mask"}, "has none. Possible here: pad, zero, mean"),
        ("gradient_shap", {"samples": 0}, "'samples' parameter"),
        ("smoothgrad", {"noise": -0.1}, "'noise' parameter"),
        ("occlusion", {"window": 0}, "'window' parameter"),
        ("occlusion", {"remove": "mask"}, "Possible here: delete, pad"),
        ("lime", {"samples": 1}, "'samples' parameter"),
        ("lime", {"remove": "unk"}, "Possible here: delete, pad"),
        ("lime", {"remove": "delete"}, "would leave nothing .* Possible instead: pad"),
        ("kernel_shap", {"remove": "delete"}, "would leave nothing .* Possible instead: pad"),
        ("kernel_shap", {"samples": 16}, "cannot tell 9 tokens apart by samples=16. .* 18"),
    ],
)
def test_query_methods_with_impossible_parameters_raise_bad_parameter(bert, name, params, message):
    with pytest.raises(BadParameter, match=message):
        bert.explain(zoo.rows("bert")[0], method=name, params=params)


def test_kernel_shap_with_the_fewest_samples_gives_finite_scores(bert):
    found = bert.explain(zoo.rows("bert")[0], method="kernel_shap", params={"samples": 18})
    assert found.passes.forward == 1 + 1 + 16
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_query_methods_without_a_pad_token_use_other_defaults_or_raise_bad_parameter(name):
    explainer = load_without_pad_token(name)
    rows = zoo.rows(name)
    few = {name: FEW[name] for name in SLOPES}
    found = explainer.explain(rows, method=[*SLOPES, "occlusion"], params=few)
    assert {one["integrated_gradients"].params["baseline"] for one in found} == {"zero"}
    assert {one["occlusion"].params["remove"] for one in found} == {"delete"}
    for method in ("lime", "kernel_shap"):
        with pytest.raises(BadParameter, match=r"would leave nothing .* Give a longer text"):
            explainer.explain(rows, method=method, params=FEW[method])


def test_lime_and_kernel_shap_with_delete_removal_give_finite_scores(reviews):
    """Special tokens stay, so that all of the text can be deleted; batches of all lengths."""
    for name in ("lime", "kernel_shap"):
        for found in reviews.explain([TEXT, "a film"], method=name, params={"remove": "delete"}):
            assert found.params["remove"] == "delete"
            assert np.isfinite(found.scores).all()
