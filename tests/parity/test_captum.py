"""Equal to Captum where both compute the same thing: on tiny models, and on the built-in one with real text."""

import numpy as np
import pytest
import torch
from captum.attr import (
    InputXGradient,
    IntegratedGradients,
    KernelShap,
    LayerIntegratedGradients,
    Occlusion,
    ShapleyValues,
)

import whence
from tests import zoo

# The same sums in float64, in another order.
EXACT = {"rtol": 1e-9, "atol": 1e-12}
# Where Captum rounds to float32 on the way, whatever it is given: its weights of steps, its averages over windows.
# Each rounding is 6e-8 of a term; a sum may be ten times smaller than its terms.
ROUNDED = {"rtol": 1e-6, "atol": 1e-6}

TEXT = "the plot is thin, but the actors are wonderful"


class Case:
    """A model, one input, and the functions of it that Captum explains."""

    def __init__(self, name):
        self.explainer = whence.load("reviews" if name == "reviews" else zoo.make(name), dtype="float64")  # fmt: skip
        self.model = self.explainer.model
        self.given = TEXT if name == "reviews" else zoo.rows(name, lengths=(9,))[0]
        self.tokens = self.explainer.explain(self.given, method="random").tokens
        self.ids = torch.tensor([[token.id for token in self.tokens]])
        self.table = self.model.get_input_embeddings()
        self.embedded = self.table(self.ids).detach()

    def explain(self, method, **params):
        return self.explainer.explain(self.given, method=method, target=1, params=params)

    def logits(self, embedded):
        return self.model(inputs_embeds=embedded).logits

    def probabilities(self, ids):
        return self.model(input_ids=ids.long()).logits.softmax(-1)

    def baseline(self, kind):
        if kind == "zero":
            return torch.zeros_like(self.embedded)
        if kind == "mean":
            return self.table.weight.detach().mean(0).expand_as(self.embedded)
        identity = torch.tensor(self.explainer.fillers[kind])
        return self.table(identity).detach().expand_as(self.embedded)

    def game(self, filler):
        """Return the probability as a function of who is present, and the places of the players."""
        places = [place for place, token in enumerate(self.tokens) if not token.special]
        powers = 2 ** torch.arange(len(places))
        everything = torch.arange(2 ** len(places))[:, None] // powers % 2
        ids = self.ids.repeat(len(everything), 1)
        ids[:, places] = torch.where(everything == 1, ids[:, places], filler)
        with torch.no_grad():
            known = torch.cat([self.probabilities(part)[:, 1] for part in ids.split(64)])
        return lambda present: known[(present.round().long() * powers).sum(-1)], places


@pytest.fixture(scope="module", params=["bert", "roberta", "gpt2", "deberta-v2", "reviews"])
def case(request):
    return Case(request.param)


@pytest.fixture(scope="module")
def reviews():
    return Case("reviews")


def close(found, wanted, tolerance=EXACT):
    np.testing.assert_allclose(found, wanted.detach().numpy(), **tolerance)


RULES = {
    "gauss_legendre": "gausslegendre",
    "midpoint": "riemann_middle",
    "right": "riemann_right",
}  # Captum's trapezoids have weights that add up to 1 - 1/steps: not the same thing.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("baseline", ["pad", "mask", "zero", "mean"])
def test_integrated_gradients(case, baseline, rule):
    if baseline not in {*case.explainer.fillers, "zero", "mean"}:
        with pytest.raises(whence.WhenceError, match="Possible here: pad, zero, mean"):
            case.explain("integrated_gradients", baseline=baseline)
        return
    wanted, delta = IntegratedGradients(case.logits).attribute(
        case.embedded,
        case.baseline(baseline),
        target=1,
        n_steps=16,  # sixteenths are exact in float32
        method=RULES[rule],
        return_convergence_delta=True,
    )
    found = case.explain("integrated_gradients", baseline=baseline, steps=16, rule=rule)
    tolerance = ROUNDED if rule == "gauss_legendre" else EXACT
    close(found.scores, wanted.sum(-1)[0], tolerance)
    close(found.axioms["completeness"], delta[0], {"rtol": 0, "atol": 10 * tolerance["atol"]})


def test_integrated_gradients_of_a_layer(case):
    """Captum's other way: the baseline as token ids, and the output of the embedding layer replaced."""
    pad = torch.full_like(case.ids, case.explainer.fillers["pad"])
    wanted = LayerIntegratedGradients(
        lambda ids: case.model(input_ids=ids).logits, case.table
    ).attribute(case.ids, pad, target=1, n_steps=16, method="riemann_middle")
    found = case.explain("integrated_gradients", baseline="pad", steps=16, rule="midpoint")
    close(found.scores, wanted.sum(-1)[0])


def test_special_tokens_that_stay(reviews):
    """The baseline that Captum's tutorials build: padding between the special tokens."""
    special = torch.tensor([[token.special for token in reviews.tokens]])
    start = torch.where(special[..., None], reviews.embedded, reviews.baseline("pad"))
    wanted = IntegratedGradients(reviews.logits).attribute(reviews.embedded, start, target=1)
    found = reviews.explain("integrated_gradients", keep_special=True)
    close(found.scores, wanted.sum(-1)[0], ROUNDED)


def test_gradient_times_input(case):
    leaf = case.embedded.clone().requires_grad_()
    wanted = InputXGradient(case.logits).attribute(leaf, target=1)
    close(case.explain("grad_x_input").scores, wanted.sum(-1)[0])


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("remove", ["pad", "mask", "unk"])
def test_occlusion(case, window, remove):
    if remove not in case.explainer.fillers:
        with pytest.raises(whence.WhenceError, match="Possible here: delete, pad"):
            case.explain("occlusion", remove=remove)
        return
    wanted = Occlusion(case.probabilities).attribute(
        case.ids.double(),
        sliding_window_shapes=(window,),
        baselines=float(case.explainer.fillers[remove]),
        target=1,
    )
    close(case.explain("occlusion", window=window, remove=remove).scores, wanted[0], ROUNDED)


def test_shapley_values():
    """All coalitions of whence against all orders of Captum."""
    short = Case("reviews")
    short.given = "not a bad film at all"
    short.tokens = short.explainer.explain(short.given, method="random").tokens
    short.ids = torch.tensor([[token.id for token in short.tokens]])
    value, places = short.game(short.explainer.fillers["mask"])
    wanted = ShapleyValues(value).attribute(
        torch.ones(1, len(places), dtype=torch.float64), baselines=0.0, perturbations_per_eval=8
    )
    found = short.explain("kernel_shap")
    # Captum adds up 720 differences in float32, each rounding 6e-8 of the sum: 4e-5 of the score at the worst.
    close(found.scores[places], wanted[0], {"rtol": 4e-5, "atol": 1e-6})


def test_kernel_shap(reviews):
    """Captum's KernelShap samples: the mean of ten runs lies around the exact values as far as their spread says."""
    value, places = reviews.game(reviews.explainer.fillers["mask"])
    method = KernelShap(value)
    runs = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(10):
            found = method.attribute(
                torch.ones(1, len(places)), n_samples=1000, perturbations_per_eval=100
            )
            runs.append(found[0].double().numpy())
    runs = np.array(runs)
    exact = reviews.explain("kernel_shap").scores[places]
    error = runs.std(0, ddof=1) / np.sqrt(len(runs))
    # Of ten scores none should be 5 standard errors away (Student's t with 9 degrees of freedom: 0.7 in 1000 each);
    # 1e-4 is for Captum's float32, and for the weight of 1e6 that it gives to the empty and the full text.
    assert (np.abs(runs.mean(0) - exact) < 5 * error + 1e-4).all()
    # The same bound tells the tokens apart: it is far below the scores.
    assert 5 * error.max() + 1e-4 < np.abs(exact).max() / 5
