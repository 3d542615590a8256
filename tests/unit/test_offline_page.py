"""Offline pages: the data they carry, size limits, content security policy and embedded scripts."""

import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256

import numpy as np
import pytest

import whence
from whence.app.schema import Explanations, Flow, Heads
from whence.explain.explanation import Explanation
from whence.explain.page import (
    build_page_data,
    embed_app,
    encode_script_json,
    read_front_end_file,
    render_page,
)
from whence.flow.graph import EdgeQuery
from whence.flow.weights import EDGE_WEIGHT_NAMES

TEXT = "the plot is thin, but the actors are wonderful"


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def found(explainer):
    return list(explainer.explain(TEXT, method=["attcat", "rollout"]).values())


@pytest.fixture(scope="module")
def page_input(found):
    (one,) = build_page_data([found])["inputs"]
    return one


def complete_flow(flow, tokens):
    return {**{name: value for name, value in flow.items() if name != "specials"}, "tokens": tokens}


def test_page_data_fits_the_schemas_of_the_server(page_input):
    told = Explanations.model_validate(page_input["explanations"])
    assert [one.method for one in told.explanations] == ["attcat", "rollout"]
    for flow in [*page_input["flows"], *page_input["words"]]:
        assert Flow.model_validate(complete_flow(flow, page_input["explanations"]["tokens"]))
    assert [Heads.model_validate(one).statistic for one in page_input["heads"]] == [
        "entropy", "special", "gradient"
    ]  # fmt: skip
    assert {flow["weight"] for flow in page_input["flows"]} == set(EDGE_WEIGHT_NAMES)
    assert page_input["without"] is None
    assert page_input["refused"] == {}


def test_page_flows_equal_those_of_the_model_to_seven_figures(explainer, page_input):
    inside = explainer.inside(TEXT)
    for flow in page_input["flows"]:
        own = inside.flow(flow["weight"], query=EdgeQuery(specials=flow["specials"]), most=2000)
        edges = own["edges"]
        kept = len(flow["edges"]["flow"])
        for column in ("layer", "head", "source", "to"):
            assert flow["edges"][column] == edges[column][:kept]
        # Seven figures: a relative error of 5e-7 at most.
        assert np.allclose(flow["edges"]["flow"], edges["flow"][:kept], rtol=5e-7, atol=0)
        assert (flow["total"], flow["count"]) == (own["total"], own["count"])
        assert kept == min(own["count"], 2000 if flow["weight"] == "attention" else 1000)


def test_page_has_a_separate_flow_of_words_where_edges_are_cut_off(page_input):
    for name in EDGE_WEIGHT_NAMES:
        flows = [flow for flow in page_input["flows"] if flow["weight"] == name]
        every = next(flow for flow in flows if flow["specials"])
        if every["count"] > len(every["edges"]["flow"]):
            (words,) = (flow for flow in flows if not flow["specials"])
            assert not any(
                page_input["explanations"]["tokens"][to]["special"] for to in words["edges"]["to"]
            )
        else:
            assert len(flows) == 1


def test_page_has_a_flow_of_at_most_150_edges_for_every_word(page_input):
    tokens = page_input["explanations"]["tokens"]
    assert [flow["token"] for flow in page_input["words"]] == [
        place for place, token in enumerate(tokens) if not token["special"]
    ]
    assert all(len(flow["edges"]["flow"]) <= 150 for flow in page_input["words"])


def test_page_attention_maps_decode_to_the_attention_within_rounding(explainer, page_input):
    packed = page_input["maps"]
    roots = np.frombuffer(b64decode(packed["data"]), "<u2").reshape(packed["shape"]) / 65535
    # A root is off by half of 1/65535 at most, its square by 2 · 1 · that, and float32's own rounding.
    assert np.abs(roots**2 - explainer.inside(TEXT).attention()).max() < 1 / 65535 + 1e-6
    assert page_input["thumbnails"]["dtype"] == "uint8"


def test_page_data_over_the_size_limit_drops_maps_then_thumbnails_then_words(found):
    sizes = {
        tier: len(json.dumps(build_page_data([found])["inputs"][0][tier]))
        for tier in ("maps", "thumbnails", "words")
    }
    full = len(json.dumps(build_page_data([found])))
    assert build_page_data([found], largest=full)["left_out"] == []
    assert build_page_data([found], largest=full - 1)["left_out"] == ["maps"]
    without_maps = full - sizes["maps"]
    assert build_page_data([found], largest=without_maps - 100)["left_out"] == [
        "maps",
        "thumbnails",
    ]
    least = build_page_data([found], largest=1)
    assert least["left_out"] == ["maps", "thumbnails", "words"]
    (one,) = least["inputs"]
    assert (one["maps"], one["thumbnails"], one["words"]) == (None, None, [])
    assert one["flows"]


def test_page_data_of_a_long_input_leaves_out_slow_weights_and_word_flows(explainer):
    (one,) = build_page_data([[explainer.explain("a dull film " * 21)]])["inputs"]
    assert len(one["explanations"]["tokens"]) == 65
    assert set(one["refused"]) == {"value_zeroing", "relevance"}
    assert "up to 64 tokens" in one["refused"]["relevance"]
    assert {flow["weight"] for flow in one["flows"]} == {
        "attention",
        "norm",
        "gradient_x_attention",
    }
    assert one["words"] == []


def test_page_data_of_a_contrast_on_a_pair_and_of_bare_ids_has_flows(explainer):
    pair = explainer.explain(("a good film", "a bad film"), target=("positive", "negative"))
    numbers = whence.load(explainer.model).explain({"input_ids": [[2, 40, 50, 3]]})
    first, second = build_page_data([[pair], [numbers]])["inputs"]
    assert first["flows"][0]["target"]["against"]["label"] == "negative"
    assert {token["segment"] for token in first["explanations"]["tokens"]} == {0, 1}
    assert second["explanations"]["input"]["text"] is None
    assert second["flows"]


def test_page_flow_of_a_probability_target_differs_from_that_of_the_logit(explainer):
    """A probability is another target than its logit, and where weights are gradients, so are flows."""
    why = explainer.explain("a fine film", of="probability")
    (carried,) = build_page_data([[why]])["inputs"]
    flow = next(one for one in carried["flows"] if one["weight"] == "gradient_x_attention")
    inside = {of: explainer.inside("a fine film", of=of) for of in ("probability", "logit")}
    shares = {of: one.flow("gradient_x_attention")["shares"] for of, one in inside.items()}
    # Seven figures are carried.
    assert flow["shares"] == pytest.approx(shares["probability"], rel=1e-6)
    assert flow["shares"] != pytest.approx(shares["logit"], rel=1e-3)


def test_page_of_a_loaded_explanation_has_scores_and_names_the_missing_model(found, tmp_path):
    path = tmp_path / "e.json"
    found[0].save(path)
    (one,) = build_page_data([[Explanation.load(path)]])["inputs"]
    assert "came without its model" in one["without"]
    assert one["flows"] == one["words"] == one["heads"] == []
    assert one["explanations"]["explanations"]
    assert "came without its model" in Explanation.load(path).to_html()


def test_to_html_without_flows_is_shorter_and_states_the_omission(explainer, found):
    html = found[0].to_html(flows=False)
    assert len(html) < len(found[0].to_html())
    assert "Flows were left out" in html


def test_page_content_security_policy_allows_its_own_script_only(found):
    html = render_page([found])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in policy
    assert script == read_front_end_file("embed.js")
    assert html.replace(script, "").count("<script") == 2  # and the data, which no browser runs


def test_front_end_bundle_has_no_text_that_ends_its_element():
    # Either would end the element or begin a comment in it.
    assert not re.search(r"</script|<!--", read_front_end_file("embed.js"), re.IGNORECASE)
    assert not re.search(r"</style|@import|url\(", read_front_end_file("embed.css"), re.IGNORECASE)


def test_encode_script_json_escapes_markup_and_decodes_to_the_same_data():
    data = {"a": "</script><!-- \u2028\u2029 &lt; é", "b": [1.5, None]}
    text = encode_script_json(data)
    assert "<" not in text and "\u2028" not in text and "\u2029" not in text
    assert json.loads(text) == data
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_script_json({"a": float("nan")})
    with pytest.raises(ValueError, match="the static page has no"):
        embed_app("<p>no page</p>", data)
