"""Cache of inputs behind the flow endpoint: separate answers by target, output, second text and truncation."""

import pytest

from tests.web.serving import ask, assert_error

TEXT = "a fine film with a dull plot"


def shares(app, **asked):
    body = {"input": {"model": "reviews", "text": TEXT, **asked}, "weight": "gradient_x_attention"}
    answer = ask(app, "POST", "/api/flow", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["shares"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"target": "positive"}, {"target": "negative"}),
        ({"target": "positive"}, {"target": "positive:negative"}),
        ({"of": "logit"}, {"of": "probability"}),
        ({"pair": "good actors"}, {"pair": "weak actors"}),
        ({"pair": "good actors"}, {"pair": None}),
    ],
)
def test_flow_endpoint_answers_each_target_output_and_pair_of_a_text_separately(
    app, explainer, one, other
):
    found = []
    for asked in (one, other, one):
        pair = asked.get("pair")
        inside = explainer.inside(
            TEXT if pair is None else (TEXT, pair),
            target=asked.get("target"),
            of=asked.get("of", "logit"),
        )
        found.append(shares(app, **asked))
        assert found[-1] == inside.flow("gradient_x_attention")["shares"]
    assert found[0] == found[2] != found[1]


def test_flow_of_a_truncated_text_is_not_reused_when_truncation_is_off(app):
    long = {"model": "reviews", "text": "a fine film " * 400}
    cut = ask(app, "POST", "/api/flow", json={"input": {**long, "truncate": True}})
    assert cut.status_code == 200
    whole = ask(app, "POST", "/api/flow", json={"input": {**long, "truncate": False}})
    assert_error(whole, 422, "too-long")
