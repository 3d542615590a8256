"""What was seen of an input is used again for that very question, and for no other."""

import pytest

from tests.web.serving import ask, refused

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
def test_another_question_about_a_text_has_its_own_answer(app, explainer, one, other):
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


def test_a_text_that_was_cut_is_not_taken_for_one_that_may_not_be(app):
    long = {"model": "reviews", "text": "a fine film " * 400}
    cut = ask(app, "POST", "/api/flow", json={"input": {**long, "truncate": True}})
    assert cut.status_code == 200
    whole = ask(app, "POST", "/api/flow", json={"input": {**long, "truncate": False}})
    refused(whole, 422, "too-long")
