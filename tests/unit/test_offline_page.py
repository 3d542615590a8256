"""What an offline page carries, and how it is put together."""

import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256

import numpy as np
import pytest

import whence
from whence.explainer import Explanation
from whence.explainer.kept.page import offline, picture
from whence.flow import NAMES, Query
from whence.report.embed import built, embedded, in_script
from whence.web.schema.explain import Explanations
from whence.web.schema.flow import Flow, Heads

TEXT = "the plot is thin, but the actors are wonderful"


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def found(explainer):
    return list(explainer.explain(TEXT, method=["attcat", "rollout"]).values())


@pytest.fixture(scope="module")
def carried(found):
    (one,) = picture([found])["inputs"]
    return one


def whole(flow, tokens):
    return {**{name: value for name, value in flow.items() if name != "specials"}, "tokens": tokens}


def test_what_it_carries_has_the_servers_shapes(carried):
    told = Explanations.model_validate(carried["explanations"])
    assert [one.method for one in told.explanations] == ["attcat", "rollout"]
    for flow in [*carried["flows"], *carried["words"]]:
        assert Flow.model_validate(whole(flow, carried["explanations"]["tokens"]))
    assert [Heads.model_validate(one).statistic for one in carried["heads"]] == [
        "entropy", "special", "gradient"
    ]  # fmt: skip
    assert {flow["weight"] for flow in carried["flows"]} == set(NAMES)
    assert carried["without"] is None
    assert carried["refused"] == {}


def test_flows_are_those_of_the_model_to_seven_figures(explainer, carried):
    inside = explainer.inside(TEXT)
    for flow in carried["flows"]:
        own = inside.flow(flow["weight"], query=Query(specials=flow["specials"]), most=2000)
        edges = own["edges"]
        kept = len(flow["edges"]["flow"])
        for column in ("layer", "head", "source", "to"):
            assert flow["edges"][column] == edges[column][:kept]
        # Seven figures: a relative error of 5e-7 at most.
        assert np.allclose(flow["edges"]["flow"], edges["flow"][:kept], rtol=5e-7, atol=0)
        assert (flow["total"], flow["count"]) == (own["total"], own["count"])
        assert kept == min(own["count"], 2000 if flow["weight"] == "attention" else 1000)


def test_where_not_all_edges_are_carried_those_of_words_come_apart(carried):
    for name in NAMES:
        flows = [flow for flow in carried["flows"] if flow["weight"] == name]
        every = next(flow for flow in flows if flow["specials"])
        if every["count"] > len(every["edges"]["flow"]):
            (words,) = (flow for flow in flows if not flow["specials"])
            assert not any(
                carried["explanations"]["tokens"][to]["special"] for to in words["edges"]["to"]
            )
        else:
            assert len(flows) == 1


def test_every_word_has_its_paths(carried):
    tokens = carried["explanations"]["tokens"]
    assert [flow["token"] for flow in carried["words"]] == [
        place for place, token in enumerate(tokens) if not token["special"]
    ]
    assert all(len(flow["edges"]["flow"]) <= 150 for flow in carried["words"])


def test_maps_come_back_within_the_rounding_of_their_root(explainer, carried):
    packed = carried["maps"]
    roots = np.frombuffer(b64decode(packed["data"]), "<u2").reshape(packed["shape"]) / 65535
    # A root is off by half of 1/65535 at most, its square by 2 · 1 · that, and float32's own rounding.
    assert np.abs(roots**2 - explainer.inside(TEXT).attention()).max() < 1 / 65535 + 1e-6
    assert carried["thumbnails"]["dtype"] == "uint8"


def test_what_is_too_large_goes_in_order(found):
    sizes = {
        tier: len(json.dumps(picture([found])["inputs"][0][tier]))
        for tier in ("maps", "thumbnails", "words")
    }
    full = len(json.dumps(picture([found])))
    assert picture([found], largest=full)["left_out"] == []
    assert picture([found], largest=full - 1)["left_out"] == ["maps"]
    without_maps = full - sizes["maps"]
    assert picture([found], largest=without_maps - 100)["left_out"] == ["maps", "thumbnails"]
    least = picture([found], largest=1)
    assert least["left_out"] == ["maps", "thumbnails", "words"]
    (one,) = least["inputs"]
    assert (one["maps"], one["thumbnails"], one["words"]) == (None, None, [])
    assert one["flows"]


def test_what_takes_long_is_left_out_of_long_inputs(explainer):
    (one,) = picture([[explainer.explain("a dull film " * 21)]])["inputs"]
    assert len(one["explanations"]["tokens"]) == 65
    assert set(one["refused"]) == {"value_zeroing", "relevance"}
    assert "up to 64 tokens" in one["refused"]["relevance"]
    assert {flow["weight"] for flow in one["flows"]} == {
        "attention",
        "norm",
        "gradient_x_attention",
    }
    assert one["words"] == []


def test_a_contrast_and_a_pair_and_numbers_alone(explainer):
    pair = explainer.explain(("a good film", "a bad film"), target=("positive", "negative"))
    numbers = whence.load(explainer.model).explain({"input_ids": [[2, 40, 50, 3]]})
    first, second = picture([[pair], [numbers]])["inputs"]
    assert first["flows"][0]["target"]["against"]["label"] == "negative"
    assert {token["segment"] for token in first["explanations"]["tokens"]} == {0, 1}
    assert second["explanations"]["input"]["text"] is None
    assert second["flows"]


def test_flows_are_of_what_was_explained(explainer):
    """A probability is another target than its logit, and where weights are gradients, so are flows."""
    why = explainer.explain("a fine film", of="probability")
    (carried,) = picture([[why]])["inputs"]
    flow = next(one for one in carried["flows"] if one["weight"] == "gradient_x_attention")
    inside = {of: explainer.inside("a fine film", of=of) for of in ("probability", "logit")}
    shares = {of: one.flow("gradient_x_attention")["shares"] for of, one in inside.items()}
    # Seven figures are carried.
    assert flow["shares"] == pytest.approx(shares["probability"], rel=1e-6)
    assert flow["shares"] != pytest.approx(shares["logit"], rel=1e-3)


def test_without_its_model_an_explanation_shows_its_words(found, tmp_path):
    path = tmp_path / "e.json"
    found[0].save(path)
    (one,) = picture([[Explanation.load(path)]])["inputs"]
    assert "came without its model" in one["without"]
    assert one["flows"] == one["words"] == one["heads"] == []
    assert one["explanations"]["explanations"]
    assert "came without its model" in Explanation.load(path).to_html()


def test_flows_can_be_left_out(explainer, found):
    html = found[0].to_html(flows=False)
    assert len(html) < len(found[0].to_html())
    assert "Flows were left out" in html


def test_the_page_lets_no_script_but_its_own_run(found):
    html = offline([found])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in policy
    assert script == built("embed.js")
    assert html.replace(script, "").count("<script") == 2  # and the data, which no browser runs


def test_the_bundle_can_stand_in_a_page():
    # Either would end the element or begin a comment in it.
    assert not re.search(r"</script|<!--", built("embed.js"), re.IGNORECASE)
    assert not re.search(r"</style|@import|url\(", built("embed.css"), re.IGNORECASE)


def test_data_in_a_script_is_inert_and_comes_back():
    data = {"a": "</script><!-- \u2028\u2029 &lt; é", "b": [1.5, None]}
    text = in_script(data)
    assert "<" not in text and "\u2028" not in text and "\u2029" not in text
    assert json.loads(text) == data
    with pytest.raises(ValueError, match="not JSON compliant"):
        in_script({"a": float("nan")})
    with pytest.raises(ValueError, match="the static page has no"):
        embedded("<p>no page</p>", data)
