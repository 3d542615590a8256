"""Removal by draw: infill model's draws by hand, scores as means over draws, and unfit infill models refused."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from tests.approx_equality import ROUNDED
from tests.contract.state import assert_unchanged, snapshot
from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    NoHead,
    TooLong,
    UnknownModel,
    UnsafeWeights,
)
from whence.core.seed import build_generator
from whence.data.removal import (
    BULK_REMOVALS,
    DRAWS_PER_REMOVAL,
    count_passes_per_removal,
    list_removals,
    resolve_removal,
)
from whence.data.tokens import encode
from whence.methods import method
from whence.models.load import load_model, with_infill_model
from whence.models.model_files import find_builtin_folder
from whence.tracing.infill import InfillCache

TEXT = "the plot is thin, but the actors are wonderful"
OTHER = "a dull film"
DRAWN = {"remove": "draw"}


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", mlm="reviews-base", dtype="float64")


@pytest.fixture(scope="module")
def base():
    return load_model("reviews-base", dtype="float64")


@pytest.fixture(scope="module")
def infiller():
    return with_infill_model(load_model("reviews", dtype="float64"), "reviews-base").infiller


@pytest.fixture
def infill(infiller):
    return InfillCache(infiller, device=torch.device("cpu"), size=8)


def draw(infill, requests):
    """The ids that are drawn for each (input, masked positions): a tuple for each draw."""
    items = [item for item, _ in requests]
    variants, _ = infill(items, range(len(items)), [places for _, places in requests])
    cut = zip(variants.changed.tolist(), variants.lengths, strict=True)
    ids = [tuple(row[:length]) for row, length in cut]
    return [ids[i : i + DRAWS_PER_REMOVAL] for i in range(0, len(ids), DRAWS_PER_REMOVAL)]


def encoded(text, loaded):
    return encode(text, loaded.tokenizer, max_length=None, truncate=False)


def small_mlm(**changes):
    sizes = {
        "vocab_size": 7500, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 2, "max_position_embeddings": 32,
    }  # fmt: skip
    return zoo.seeded(lambda: hf.BertForMaskedLM(hf.BertConfig(**{**sizes, **changes}))).eval()


# --- what is drawn ---

HOLES = [(4,), (1, 2), (10, 3), (0,), (11,), tuple(range(1, 11)), tuple(range(12))]


@pytest.mark.parametrize("hole", HOLES, ids=str)
def test_infill_replaces_only_masked_positions_and_draws_no_special_tokens(infill, base, hole):
    item = encoded(TEXT, base)
    (found,) = draw(infill, [(item, hole)])
    assert len(found) == DRAWS_PER_REMOVAL
    for one in found:
        for place, (new, old) in enumerate(zip(one, item.ids, strict=True)):
            if place in hole:
                assert new not in base.tokenizer.all_special_ids
            else:
                assert new == old


def test_infill_draws_equal_keyed_draws_from_the_language_model_by_hand(infill, base):
    """By hand: mask, run, leave out the special tokens, and look the keyed number up in the sums."""
    item = encoded(TEXT, base)
    for hole in ((4,), (3, 10)):
        ids = torch.tensor([item.ids])
        ids[0, list(hole)] = base.tokenizer.mask_token_id
        with torch.no_grad():
            logits = base.model(input_ids=ids).logits[0]
        (found,) = draw(infill, [(item, hole)])
        for number, one in enumerate(found):
            heights = build_generator("draw", number, item.ids, hole).random(len(hole))
            for place, height in zip(hole, heights, strict=True):
                shares = logits[place].exp()
                shares[base.tokenizer.all_special_ids] = 0
                sums = (shares / shares.sum()).cumsum(0)
                assert one[place] == int((sums <= height).sum())


def test_infill_draws_a_word_as_often_as_the_language_model_predicts(infill, base):
    """Over many holes that are alike, a word comes as often as the language model says, within chance."""
    tokenizer = base.tokenizer
    the = tokenizer.convert_tokens_to_ids("the")
    expected, drawn = [], []
    names = ["movie", "film", "plot", "story", "cast", "script", "humor", "music", "end", "drama"]
    for name, end in product(names, ("", ".", "!")):
        item = encoded(f"but {name} is good{end}", base)
        masked = torch.tensor([[*item.ids[:1], tokenizer.mask_token_id, *item.ids[2:]]])
        with torch.no_grad():
            logits = base.model(input_ids=masked).logits[0, 1]
        logits[tokenizer.all_special_ids] = -torch.inf
        expected += [logits.softmax(-1)[the].item()] * DRAWS_PER_REMOVAL
        (found,) = draw(infill, [(item, (1,))])
        drawn += [one[1] == the for one in found]
    p = np.array(expected)
    # A sum of independent draws, each with its own probability: five standard deviations, and the seeds are fixed.
    assert abs(sum(drawn) - p.sum()) < 5 * np.sqrt((p * (1 - p)).sum())


def test_infill_draws_do_not_depend_on_batch_order_or_repetition(infill, infiller, base):
    items = [encoded(text, base) for text in (TEXT, OTHER, "a film", TEXT)]
    holes = [
        (items[0], (4,)),
        (items[1], (1, 2)),
        (items[2], (1,)),
        (items[3], [4]),
        (items[1], (2, 1)),
    ]
    together = draw(infill, holes)
    assert (
        infill.forwards == 3
    )  # the first and the fourth are the same, and so are the second and the last
    assert together[0] == together[3]
    again = InfillCache(infiller, device=torch.device("cpu"), size=1)
    for hole, found in zip(holes, together, strict=True):
        assert draw(again, [hole]) == [found]
    draw(infill, holes)
    assert infill.forwards == 3
    infill.forget()
    draw(infill, holes)
    assert infill.forwards == 6


def test_infill_with_no_masked_positions_returns_the_input_without_a_pass(infill, base):
    item = encoded(TEXT, base)
    (found,) = draw(infill, [(item, ())])
    assert found == [item.ids] * DRAWS_PER_REMOVAL
    assert infill.forwards == 0


# --- expectations ---


def mean_probabilities_by_hand(explainer, infill, text, holes):
    """Return the mean probability of the prediction over the fillings of each hole, one model run each."""
    item = encoded(text, explainer)
    best = explainer.predict(text).label
    result = []
    for hole in holes:
        (fillings,) = draw(infill, [(item, hole)])
        answers = [explainer.predict({"input_ids": list(one)}) for one in fillings]
        result.append(np.mean([one.probabilities[best] for one in answers]))
    return explainer.predict(text).probability, np.array(result)


def test_leave_one_out_with_draw_is_the_mean_over_the_draws(reviews, infill):
    found = reviews.explain(TEXT, method="leave_one_out", params=DRAWN)
    base, after = mean_probabilities_by_hand(
        reviews, infill, TEXT, [(i,) for i in range(len(found.tokens))]
    )
    assert np.allclose(found.scores, base - after, rtol=0, atol=1e-12)  # means of five in float64
    assert found.params["remove"] == "draw"


def test_occlusion_with_draw_is_the_mean_over_the_draws(reviews, infill):
    found = reviews.explain(OTHER, method="occlusion", params={**DRAWN, "window": 2})
    base, after = mean_probabilities_by_hand(
        reviews, infill, OTHER, [(0, 1), (1, 2), (2, 3), (3, 4)]
    )
    falls = base - after
    wanted = [falls[0], falls[:2].mean(), falls[1:3].mean(), falls[2:].mean(), falls[3]]
    assert np.allclose(found.scores, wanted, rtol=0, atol=1e-12)


def test_kernel_shap_with_draw_adds_up_to_the_mean_over_the_draws(reviews, infill):
    found = reviews.explain(OTHER, method="kernel_shap", params=DRAWN)
    base, after = mean_probabilities_by_hand(reviews, infill, OTHER, [(1, 2, 3)])
    assert found.scores.sum() == pytest.approx(base - after[0], abs=1e-12)


@pytest.mark.parametrize("name", ["leave_one_out", "occlusion", "lime", "kernel_shap"])
def test_explain_with_draw_of_a_batch_equals_its_singles(reviews, name):
    params = {**DRAWN, "samples": 20} if name in {"lime", "kernel_shap"} else DRAWN
    texts = [OTHER, TEXT, "wonderful"]
    together = reviews.explain(texts, method=name, params=params)
    for text, found in zip(texts, together, strict=True):
        alone = reviews.explain(text, method=name, params=params)
        # The order of summation differs, in float64; a draw would move scores by far more.
        assert np.allclose(found.scores, alone.scores, rtol=0, atol=1e-10)
        assert found.passes == alone.passes


def test_leave_one_out_with_draw_differs_from_the_default_mask(reviews):
    drawn = reviews.explain(TEXT, method="leave_one_out", params=DRAWN)
    masked = reviews.explain(TEXT, method="leave_one_out")
    assert masked.params["remove"] == "mask"  # what is drawn is never the default
    assert np.abs(drawn.scores - masked.scores).max() > 0.1


# --- counted, and left as found ---


def test_explain_with_draw_counts_passes_of_both_models(reviews, infill, base):
    ticks = []
    found = reviews.explain(
        TEXT, method="leave_one_out", params=DRAWN, progress=lambda *at: ticks.append(at)
    )
    item = encoded(TEXT, base)
    variants = {ids for i in range(len(item)) for ids in draw(infill, [(item, (i,))])[0]}
    assert found.passes.forward == 1 + len(item) + len(variants)
    assert found.passes.forward <= 1 + len(item) * count_passes_per_removal("draw")
    assert ticks[-1] == (found.passes.forward, found.passes.forward)
    assert [count_passes_per_removal(how) for how in (*BULK_REMOVALS, None)] == [1] * 5


def test_explain_with_draw_leaves_both_models_as_found(base):
    model, language = load_model("reviews").model.train(), copy.deepcopy(base.model).train()
    explainer = whence.load(model, tokenizer=base.tokenizer, mlm=language)
    before = snapshot(model), snapshot(language)
    with torch.no_grad():
        explainer.explain(TEXT, method="leave_one_out", params=DRAWN)
    assert_unchanged(before[0], snapshot(model))
    assert_unchanged(before[1], snapshot(language))


def test_provenance_names_the_infill_model_and_its_fingerprint(reviews, base):
    from whence.models.fingerprint import compute_fingerprint

    found = reviews.explain(OTHER, method="leave_one_out", params=DRAWN)
    assert found.provenance["mlm"] == "reviews-base"
    assert found.provenance["mlm_fingerprint"] == compute_fingerprint(base.model)
    assert "mlm" not in whence.load("reviews").explain(OTHER).provenance


# --- where it comes from ---


def test_infill_model_given_as_folder_or_object_equals_one_given_by_name(reviews, base, tmp_path):
    wanted = reviews.explain(OTHER, method="leave_one_out", params=DRAWN)
    base.model.save_pretrained(tmp_path)
    base.tokenizer.save_pretrained(tmp_path)
    for mlm in (find_builtin_folder("reviews-base"), str(tmp_path), base.model):
        found = whence.load("reviews", mlm=mlm, dtype="float64")
        scores = found.explain(OTHER, method="leave_one_out", params=DRAWN).scores
        # The same weights from other memory: the last bits of float64 may differ, and no draw does.
        np.testing.assert_allclose(scores, wanted.scores, rtol=0, atol=ROUNDED)


def test_with_infill_model_takes_the_dtype_of_the_model_and_adds_draw(base):
    loaded = with_infill_model(load_model("reviews", dtype="float64"), "reviews-base")
    assert loaded.infiller.loaded.dtype == torch.float64
    assert list_removals(loaded.fillers) == ["mask", "delete", "pad", "unk", "draw"]
    assert (
        resolve_removal(None, loaded.fillers)
        == resolve_removal(None, loaded.fillers, BULK_REMOVALS)
        == "mask"
    )
    assert loaded.infiller.mask_id == base.tokenizer.mask_token_id


def test_methods_without_removal_give_the_same_scores_beside_an_infill_model(reviews):
    plain = whence.load("reviews", dtype="float64")
    names = [name for name in method.names() if "remove" not in method.get(name).parameters]
    found, wanted = (one.explain(OTHER, method=names) for one in (reviews, plain))
    assert all((found[name].scores == wanted[name].scores).all() for name in names)


def test_explain_with_draw_but_no_infill_model_raises_bad_parameter():
    explainer = whence.load("reviews")
    for name in ("leave_one_out", "occlusion", "lime", "kernel_shap"):
        with pytest.raises(BadParameter, match=r"mlm=\.\.\.\), --mlm\. .*mask, delete, pad, unk\."):
            explainer.explain(TEXT, method=name, params=DRAWN)


@pytest.mark.parametrize(
    ("model", "mlm", "error", "message"),
    [
        ("decoy", "reviews-base", BadTokenizer, "'reviews-base' has another vocabulary than 'decoy'"),
        ("reviews", "reviews", NoHead, "'reviews' is a BertForSequenceClassification: .*ForMaskedLM"),
        ("reviews", "nothing", UnknownModel, "There is no model 'nothing'"),
        ("reviews", 3, UnknownModel, "Cannot load a int"),
    ],
)  # fmt: skip
def test_load_with_an_unfit_infill_model_raises_the_reason(model, mlm, error, message):
    with pytest.raises(error, match=message):
        whence.load(model, mlm=mlm)


def test_load_refuses_an_infill_model_without_a_masked_lm_head(base, tmp_path):
    hf.BertModel(copy.deepcopy(base.model.config)).save_pretrained(tmp_path)
    base.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(NoHead, match="is a BertModel: it has no masked language modelling head"):
        whence.load("reviews", mlm=tmp_path)
    config = (tmp_path / "config.json").read_text().replace('"BertModel"', '"BertForMaskedLM"')
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(NoHead, match="made up at random"):
        whence.load("reviews", mlm=tmp_path)


def test_load_refuses_an_infill_model_stored_as_pickle(base, tmp_path):
    base.model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(UnsafeWeights, match="pickle"):
        whence.load("reviews", mlm=tmp_path)


def test_load_refuses_an_infill_model_with_too_small_a_vocabulary():
    with pytest.raises(BadTokenizer, match="another vocabulary"):
        whence.load("reviews", mlm=small_mlm(vocab_size=64))


def test_load_with_infill_model_but_no_tokenizer_raises_bad_tokenizer(base):
    with pytest.raises(BadTokenizer, match="has no tokenizer"):
        whence.load(zoo.make("bert"), mlm="reviews-base")


def test_explain_with_draw_beyond_the_infill_models_length_raises_too_long():
    explainer = whence.load("reviews", mlm=small_mlm(max_position_embeddings=8))
    assert len(explainer.explain(OTHER, method="leave_one_out", params=DRAWN).scores) == 5
    with pytest.raises(TooLong, match=r"has 12 tokens, and the language model .* at most 8"):
        explainer.explain(TEXT, method="leave_one_out", params=DRAWN)


def test_explain_with_draw_and_infill_model_without_logits_raises_no_head(base):
    class Encoder(hf.BertModel):
        pass

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
    model = Encoder(hf.BertConfig(vocab_size=7500, num_hidden_layers=1, **sizes)).eval()
    explainer = whence.load("reviews", mlm=model)
    with pytest.raises(
        NoHead, match=r"Encoder\) gives no logits of \(inputs, tokens, vocabulary\)"
    ):
        explainer.explain(TEXT, method="leave_one_out", params=DRAWN)


def test_infill_never_draws_ids_beyond_the_vocabulary(base):
    """Ids without a word, at the end of a padded table, are not drawn."""
    language = copy.deepcopy(base.model)
    language.resize_token_embeddings(7552)
    with torch.no_grad():
        language.cls.predictions.bias[7500:] = 50
    loaded = with_infill_model(load_model("reviews", dtype="float64"), language)
    assert max(loaded.infiller.words) == 7499
    item = encoded(TEXT, base)
    infill = InfillCache(loaded.infiller, device=torch.device("cpu"), size=8)
    (found,) = draw(infill, [(item, range(12))])
    assert max(map(max, found)) < 7500
