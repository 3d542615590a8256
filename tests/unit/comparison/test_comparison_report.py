"""Comparison output in every format, and refusals of models and requests that cannot be compared."""

import copy
import json
from dataclasses import replace
from io import StringIO
from itertools import pairwise

import pytest
from tokenizers import normalizers

import whence
from tests import zoo
from tests.conftest import ROOT
from tests.unit.comparison.conftest import TEXTS, load_sign_flipped_model, tokens
from tests.unit.small_tokenizers import wordpiece
from whence.app.schema import Comparison as Schema
from whence.core.errors import BadParameter, BadTokenizer, CannotRead, NoTokenizer, UnknownMethod
from whence.explain.explainer import Explainer
from whence.studies.compare.compare import compare
from whence.studies.compare.comparison import Comparison
from whence.studies.compare.pair_measures import check_tokens, with_common_max_length

# What cannot be compared


def explainer(name, tokenizer=None, **config):
    model = zoo.make(name) if not config else None
    if model is None:
        import transformers as hf

        model = (
            zoo.seeded(
                lambda: hf.BertForSequenceClassification(hf.BertConfig(**{**zoo._BERT, **config}))
            )
            .double()
            .eval()
        )
    model.resize_token_embeddings(400)
    return whence.load(model, tokenizer=tokenizer or wordpiece())


def test_compare_of_models_with_other_tokenizer_layers_or_heads_is_refused(tuned):
    decoy = whence.load("decoy", dtype="float64")
    with pytest.raises(BadTokenizer, match=r"different tokenizers: '.+' is \d+ in one and \d+ in"):
        compare(tuned, decoy, TEXTS)
    one = explainer("bert")
    with pytest.raises(BadParameter, match=r"3 layers of 4 heads, .* 2 layers of 4 heads"):
        compare(one, explainer("bert", num_hidden_layers=2), TEXTS)
    with pytest.raises(BadParameter, match=r"3 layers of 4 heads, .* 3 layers of 2 heads"):
        compare(one, explainer("bert", num_attention_heads=2), TEXTS)
    with pytest.raises(NoTokenizer, match="has no tokenizer"):
        compare(one, whence.load(zoo.make("bert")), TEXTS)


def test_check_tokens_with_different_tokens_raises_bad_tokenizer():
    one, other = tokens("a b c"), tokens("a b c d")
    check_tokens("a b c", one, one)
    with pytest.raises(
        BadTokenizer,
        match=r"'a b c' is read differently: at token 3 'x' has nothing, 'y' 'd' \(id 3\)",
    ):
        check_tokens("a b c", one, other, ("x", "y"))


def test_compare_with_one_vocabulary_but_other_normalizer_raises_bad_tokenizer():
    cased = copy.deepcopy(wordpiece())
    cased.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    assert cased("a Film")["input_ids"] != wordpiece()("a Film")["input_ids"]
    with pytest.raises(BadTokenizer, match="'a Film' is read differently"):
        compare(explainer("bert"), explainer("bert", cased), ["a film", "a Film"], method=None)


def test_compare_uses_the_smaller_max_length_for_both_models(tuned):
    short = Explainer(replace(tuned.loaded, max_length=8))
    both = with_common_max_length(tuned, short)
    assert [one.loaded.max_length for one in both] == [8, 8]
    found = compare(tuned, short, TEXTS, method=None).to_dict()
    assert found["data"]["cut"] > 0
    assert found["overlap"]["jaccard"]["mean"] == 1


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"weight": "atention"}, BadParameter, "Did you mean 'attention'"),
        ({"coverage": 0}, BadParameter, "coverage must be above 0 and at most 1. Got 0"),
        ({"coverage": float("nan")}, BadParameter, "Got nan"),
        ({"specials": "no"}, BadParameter, "specials must be True or False. Got 'no'"),
        ({"limit": 0}, BadParameter, "limit must be a whole number"),
        ({"seed": 1.5}, BadParameter, "seed must be a whole number"),
        ({"method": "atcat"}, UnknownMethod, "Did you mean 'attcat'"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_loaded(options, error, said):
    with pytest.raises(error, match=said):
        compare("nowhere/at-all", "nowhere/either", TEXTS, **options)


# What comes of it


def test_comparison_sentence_calls_models_of_one_name_first_and_second(tuned):
    found = compare(tuned, load_sign_flipped_model(), TEXTS[:1], method=None).to_dict()
    assert found["sentence"].startswith("the first reviews and the second reviews attend alike")
    assert found["sentence"].endswith("on 1 input: no head diverges from its twin.")
    other = explainer("bert"), explainer("bert", hidden_dropout_prob=0.2)
    named = [Explainer(replace(one.loaded, name="/models/film")) for one in other]
    named[1].model.bert.embeddings.word_embeddings.weight.data.mul_(2)
    said = compare(*named, TEXTS[:1], method=None).to_dict()["sentence"]
    assert (
        "Over 1 input, the attention of the second film is farthest from that of the first" in said
    )
    assert "1 input is too few" in said


def test_comparison_save_and_read_round_trip_and_bad_files_are_refused(found, tmp_path):
    file = found.save(tmp_path / "a.json")
    assert Comparison.load(file).to_dict() == found.to_dict()
    assert found.save(tmp_path / "a.html").read_text().startswith("<!doctype html>")
    with pytest.raises(BadParameter, match=r"saved as \.json, \.html"):
        found.save(tmp_path / "a.txt")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "audit", "version": 1}))
    with pytest.raises(CannotRead, match="not a saved comparison"):
        Comparison.load(tmp_path / "b.json")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "comparison", "version": 9}))
    with pytest.raises(CannotRead, match="version 9"):
        Comparison.load(tmp_path / "b.json")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "comparison", "version": 1}))
    with pytest.raises(CannotRead, match="KeyError"):
        Comparison.load(tmp_path / "b.json")


def test_comparison_repr_text_html_and_head_lookup_show_the_figures(found):
    assert repr(found) == "<Comparison reviews-base and reviews on 6 inputs>"
    assert found.sentence in str(found)
    assert (
        found.head(*found.changed_heads[0])["divergence"]
        == found.to_dict()["changed"]["heads"][0]["divergence"]
    )
    with pytest.raises(BadParameter, match=r"There is no head 9\.9: the models have 4 layers of 4"):
        found.head(9, 9)
    page = found.to_html()
    assert page.count('<svg class="track"') == 4 * 4  # four figures of four layers
    assert page.count('" title="layer ') == 32  # two maps of 16 heads
    assert "nan" not in page.lower().replace("dominant", "").replace("provenance", "")
    assert found._repr_html_().startswith('<div class="whence">')


def test_comparison_html_and_text_escape_markup_and_control_characters(found):
    payload = found.to_dict()
    evil = "<script>alert(1)</script>\x1b[31m"
    payload["a"] = {**payload["a"], "name": evil, "class": evil}
    payload["data"] = {**payload["data"], "name": evil, "why_not": [{"why": evil, "count": 1}]}
    payload["specials"] = [{**payload["specials"][0], "name": evil}]
    payload["sentence"] = evil
    shown = Comparison(payload)
    for text in (shown.to_html(), shown._repr_html_()):
        assert "<script" not in text
        assert "\x1b" not in text
        assert "&lt;script&gt;" in text
    assert "\x1b" not in str(shown)


def test_comparison_in_a_terminal_fits_widths_of_40_80_and_200(found):
    from rich.console import Console

    for width in (40, 80, 200):
        console = Console(width=width, file=StringIO())
        console.print(found)
        text = console.file.getvalue()
        assert max(map(len, text.splitlines())) <= width
        assert "reviews-base" in text
        assert "chance" in text


def test_science_page_of_compare_equals_its_results_file():
    from bench.science import compare as science

    found = json.loads(science.RESULT.read_text("utf-8"))
    kept = Comparison.from_dict(found).to_dict()
    Schema.model_validate(kept)
    assert science.PAGE.read_text("utf-8") == science.render_page(found)
    assert (kept["data"]["used"], kept["a"]["name"], kept["b"]["name"]) == (
        200,
        "minilm-base",
        "minilm-sst2",
    )
    assert str(ROOT) not in science.RESULT.read_text("utf-8")
    # What the page says beside its figures.
    layers = kept["layers"]
    assert all(
        one["divergence"]["mean"] < two["divergence"]["mean"] for one, two in pairwise(layers)
    )
    assert layers[-1]["decision"]["low"] > max(one["decision"]["high"] for one in layers[:-1])
    assert len(kept["changed"]["special"]["less"]) > len(kept["changed"]["special"]["more"])
