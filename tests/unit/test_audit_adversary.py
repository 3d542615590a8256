"""Adversarial attention of an audit: search equals torch's Adam and loops, batches equal singles, known results."""

from math import log
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.audit_subjects import TEXTS, attentive, reviews, subject_of
from whence.studies.audit.adversary import (
    AdversarialResult,
    SearchOptions,
    find_adversaries,
    optimise_attention,
)
from whence.studies.audit.attention_variants import jsd
from whence.studies.audit.experiments.adversarial import adversarial

FEW = SearchOptions(candidates=3, steps=20)


def make_toy_replay(rows, task="single_label", labels=2):
    """Make a batch of one-layer models of four tokens: the answer is a softmax of what is attended to."""
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(rows, 4, labels, generator=draw, dtype=torch.float64)

    def answers(weights):
        return torch.einsum("rkcqt,rtl->rkl", weights, values[: len(weights)]).softmax(-1)

    own = torch.rand(rows, 1, 1, 4, generator=draw, dtype=torch.float64).softmax(-1)
    replayed = SimpleNamespace(
        own=own,
        movable=torch.ones(rows, 4, dtype=torch.bool),
        shares=torch.ones(rows, 1, dtype=torch.float64),
        base=answers(own[:, None])[:, 0],
        __call__=answers,
    )
    return type("Toy", (), {**vars(replayed), "__call__": lambda _, weights: answers(weights)})()


def noise_for(replayed, candidates, seed=1):
    shape = (len(replayed.own), candidates, *replayed.own.shape[1:])
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def optimise_with_torch_adam(replayed, noise, search, task="single_label"):
    """Do as Jain and Wallace describe it: torch's Adam, every divergence written out, the diagonal included."""
    scores = (noise * 3 + log(1 / 4)).requires_grad_()
    optimiser = torch.optim.Adam([scores], lr=search.rate, amsgrad=True)
    for _ in range(search.steps):
        candidates = scores.masked_fill(~replayed.movable[:, None, None, None], -torch.inf).softmax(
            -1
        )
        moved = (replayed(candidates) - replayed.base[:, None]).abs().sum(-1)
        if replayed.base.shape[-1] == 2 and task == "single_label":
            moved = moved / 2  # one sigmoid
        own = jsd(candidates, replayed.own[:, None]).mean((2, 3))
        loss = (search.weight * (moved - search.epsilon).relu() - own).sum()
        count = candidates.shape[1]
        for one in range(count):
            for other in range(count):
                apart = jsd(candidates[:, one], candidates[:, other]).mean((1, 2)).sum()
                loss = loss - apart / count**2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return scores.detach().softmax(-1)


@pytest.mark.parametrize("labels", [2, 3])
def test_optimise_attention_equals_a_written_out_loop_with_torch_adam(labels):
    replayed = make_toy_replay(3, labels=labels)
    search = SearchOptions(candidates=4, steps=60)
    noise = noise_for(replayed, 4)
    found = optimise_attention(replayed, noise, search, "single_label")
    # In float64: 60 steps of some 1e-14 each, as sizes of slopes are divided by each other.
    torch.testing.assert_close(
        found, optimise_with_torch_adam(replayed, noise, search), rtol=0, atol=1e-9
    )


def test_optimise_attention_of_one_candidate_equals_the_written_out_loop():
    replayed = make_toy_replay(2)
    search = SearchOptions(candidates=1, steps=30)
    noise = noise_for(replayed, 1)
    found = optimise_attention(replayed, noise, search, "single_label")
    torch.testing.assert_close(
        found, optimise_with_torch_adam(replayed, noise, search), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("model", [attentive, reviews])
def test_find_adversaries_of_a_batch_equals_its_singles(model):
    together = subject_of(model(), TEXTS, None)
    (found,) = find_adversaries(together, FEW, together.sites)
    for number, text in enumerate(TEXTS):
        alone = subject_of(model(), [text], None)
        ((one,),) = find_adversaries(alone, FEW, alone.sites)
        # Twenty steps in float64: Adam divides slopes by their sizes, so that 1e-16 of the largest slope may be 1e-11
        # of a small one.
        np.testing.assert_allclose(one.jsd, found[number].jsd, rtol=0, atol=1e-9)
        np.testing.assert_allclose(one.tvd, found[number].tvd, rtol=0, atol=1e-9)
        np.testing.assert_allclose(
            one.first_site_distributions.candidates,
            found[number].first_site_distributions.candidates,
            rtol=0,
            atol=1e-9,
        )


def test_find_adversaries_at_several_sites_equals_each_site_alone():
    every = subject_of(reviews(), TEXTS[:2], None, site="layers")
    by_site = find_adversaries(every, FEW, every.sites)
    for site, found in zip(every.sites, by_site, strict=True):
        alone = subject_of(reviews(), TEXTS[:2], None, site=str(site.layers[0]))
        (wanted,) = find_adversaries(alone, FEW, alone.sites)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.jsd, other.jsd, rtol=0, atol=1e-9)


def test_find_adversaries_tvd_and_jsd_equal_those_of_the_decoder_run_by_hand():
    """The distributions, put in by hand: a decoder of what is attended to, in J&W's model."""
    subject = subject_of(attentive(), TEXTS, None)
    (found,) = find_adversaries(subject, FEW, subject.sites)
    model = subject.loaded.model
    for number, one in enumerate(found):
        item, kept = subject.items[number], one.first_site_distributions
        assert kept.places.tolist() == subject.content[number].tolist()
        np.testing.assert_allclose(kept.candidates.sum(-1), 1, atol=1e-12)
        np.testing.assert_allclose(kept.own[0, 0], subject.attention()[number], atol=1e-12)
        ids = torch.tensor([item.ids])
        with torch.no_grad():
            real = torch.ones_like(ids, dtype=torch.bool)
            special = (ids == 2) | (ids == 3)
            states, _ = model.encoders[0](model.embeddings(ids), real, special)
            said = torch.tensor(kept.candidates[:, 0, 0]) @ states[0, kept.places]
            positive = model.decoder.output(said).sigmoid()[:, 0].numpy()
        moved = np.abs(positive - subject.probabilities[number, 1])
        np.testing.assert_allclose(one.tvd, moved, atol=1e-12)
        far = jsd(torch.tensor(kept.candidates), torch.tensor(kept.own)).mean((1, 2))
        np.testing.assert_allclose(one.jsd, far, atol=1e-12)


def test_adversarial_result_takes_the_farthest_feasible_candidate():
    """Three candidates: the farthest is not feasible; at another epsilon none is, and the original is left."""
    one = AdversarialResult(np.array([0.6, 0.3, 0.4]), np.array([0.2, 0.01, 0.05]), None)
    assert one.find_feasible(0.05).tolist() == [False, True, True]
    assert (one.largest_divergence(0.05), one.find_best(0.05)) == (0.4, 2)
    assert (one.largest_divergence(0.3), one.find_best(0.3)) == (0.6, 0)
    assert (one.largest_divergence(0.001), one.find_best(0.001)) == (0.0, None)


def test_find_adversaries_with_the_same_options_searches_once():
    subject = subject_of(reviews(), TEXTS[:2], None)
    (first,) = find_adversaries(subject, FEW, subject.sites)
    (again,) = find_adversaries(subject, FEW, subject.sites)
    assert first is again
    (other,) = find_adversaries(subject, SearchOptions(candidates=3, steps=21), subject.sites)
    assert other is not first


def test_adversarial_on_equal_words_reaches_nearly_the_largest_divergence():
    """All words the same: nothing moves the prediction, and all of the weight can be on one of them."""
    subject = subject_of(attentive("average"), ["dull dull dull dull dull dull"], None)
    finding = adversarial(subject, steps=300)
    # Six equal weights against all on one: log 6 / 2 + ... by hand, with m = (7/12, 1/12 x 5):
    # (log(12/7) + (1/6) log(2/7) + (5/6) log 2) / 2 = 0.4539
    assert finding.values[0] > 0.43
    assert finding.detail["tvd"]["mean"] < 1e-6
    assert finding.detail["only_the_original"] == 0


def test_adversarial_where_weights_decide_the_prediction_finds_almost_no_divergence():
    """Two words that say the opposite, as loud as can be: their weights are the prediction."""
    explainer = attentive("average")
    model = explainer.model
    subject = subject_of(explainer, ["a mess"], None)
    kept = [weight.detach().clone() for weight in model.parameters()]
    try:
        with torch.no_grad():
            # States of the two words along the decoder's direction, plus and minus one: z is 20 (2 α - 1).
            for word, sign in (("a", 1.0), ("mess", -1.0)):
                identity = explainer.tokenizer.convert_tokens_to_ids(word)
                model.embeddings.weight[identity] = 0
                model.embeddings.weight[identity, 0] = sign * 100
            layer = model.encoders[0]
            linear = next(m for m in layer.modules() if isinstance(m, torch.nn.Linear))
            linear.weight.zero_()
            linear.bias.zero_()
            linear.weight[0, 0] = 1.0
            model.decoder.output.weight.zero_()
            model.decoder.output.bias.zero_()
            model.decoder.output.weight[0, 0] = 20.0
            for weight in model.attention.parameters():
                weight.zero_()  # a half for each
        finding = adversarial(subject, steps=300)
    finally:
        with torch.no_grad():
            for weight, before in zip(model.parameters(), kept, strict=True):
                weight.copy_(before)
    # σ(20 (2 α - 1)) is within 0.05 of a half for α within 0.005 of a half: the divergence is about α² x 2 = 5e-5.
    assert finding.values[0] < 1e-4


def test_adversarial_finding_has_values_by_site_and_class_and_three_plots():
    subject = subject_of(reviews(), TEXTS, None, site="layers")
    finding = adversarial(subject, steps=30, candidates=2)
    found = find_adversaries(subject, SearchOptions(2, 30), subject.sites)
    np.testing.assert_array_equal(
        finding.values, [one.largest_divergence(0.05) for one in found[0]]
    )
    assert list(finding.by_site) == [site.name for site in subject.sites[1:]]
    for values, site in zip(finding.by_site.values(), found[1:], strict=True):
        np.testing.assert_array_equal(values, [one.largest_divergence(0.05) for one in site])
    assert sum(map(len, finding.by_class.values())) == len(TEXTS)
    histogram, violin, shown = finding.plots
    assert len(histogram["edges"]) == 41 and (histogram["edges"][0], histogram["edges"][-1]) == (
        0,
        0.7,
    )
    assert sum(sum(series["counts"]) for series in histogram["series"]) == len(TEXTS)
    assert sum(g["n"] for series in violin["series"] for g in series["groups"]) == len(TEXTS)
    assert [len(example["rows"]) for example in shown["examples"]] == [2] * 6
    for example in shown["examples"]:
        for row in example["rows"]:
            assert len(row["weights"]) == len(example["tokens"])
            assert sum(row["weights"]) == pytest.approx(1)
    # Two layers keep no distributions: memory is for the first site.
    with pytest.raises(AssertionError):
        _ = found[1][0].first_site_distributions
