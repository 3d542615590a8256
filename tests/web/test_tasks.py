"""API for language models, question answering, tagging, zero-shot and generation: the same numbers as Python."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
)

import whence
from tests.web.serving import ask, assert_error, begin_job, wait_for_job
from whence.app.server import create_app
from whence.app.settings import Settings

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
NLI = ("contradiction", "neutral", "entailment")
NAMES = "Nino Rota wrote the music in Rome"
PROMPT = "the film was made"


def build_label_maps(labels):
    return {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tiny models with random weights, large enough to say something about every token."""
    folder = tmp_path_factory.mktemp("tasks")
    tokenizer = whence.load("reviews").loaded.tokenizer
    sizes = {"vocab_size": len(tokenizer), "initializer_range": 0.6}
    bert = {
        **{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
        **{"intermediate_size": 32, "max_position_embeddings": 64, **sizes},
    }
    torch.manual_seed(3)
    made = {
        "tagger": BertForTokenClassification(BertConfig(**bert, **build_label_maps(TAGS))),
        "reader": BertForQuestionAnswering(BertConfig(**bert)),
        "nli": BertForSequenceClassification(BertConfig(**bert, **build_label_maps(NLI))),
        "writer": GPT2LMHeadModel(
            GPT2Config(
                n_embd=16,
                n_layer=2,
                n_head=2,
                n_positions=64,
                bos_token_id=0,
                eos_token_id=0,
                **sizes,
            )
        ),
    }
    for name, model in made.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


@pytest.fixture(scope="module")
def app(folder):
    given = (str(folder / name) for name in ("tagger", "reader", "nli", "writer"))
    app = create_app(Settings(models=(*given, "reviews-base")))
    yield app
    assert app.state.app_state.close(10)


def post_explain(app, methods=("attcat",), **given):
    return ask(app, "POST", "/api/explain", json={"input": given, "methods": list(methods)})


def assert_same_explanation(answer, explanation):
    """Check that an answer has the scores and the target of an explanation."""
    found = answer.json()
    assert answer.status_code == 200, found
    (one,) = found["explanations"]
    # float32, and one entity here may stand beside others there: batches of other sizes round otherwise.
    size = float(abs(explanation.scores).max())
    assert one["scores"] == pytest.approx(explanation.scores.tolist(), rel=0, abs=1e-5 * size)
    assert found["target"]["label"] == explanation.target.label
    return found


def test_models_endpoint_reports_the_task_of_each_model(app):
    for name, task in (
        ("tagger", "tags"),
        ("reader", "answer"),
        ("nli", "single_label"),
        ("writer", "next"),
    ):
        entry = ask(app, "POST", "/api/models", json={"name": name}).json()
        assert (entry["task"], entry["modality"], entry["attention"]) == (task, "text", None)
        assert entry["zero_shot"] == (name == "nli")
    entry = ask(app, "POST", "/api/models", json={"name": "reviews-base"}).json()
    assert (entry["task"], entry["mask"]) == ("mask", "[MASK]")


def test_explain_endpoint_of_a_masked_language_model_equals_the_library(app):
    text = "the actors are [MASK]"
    explainer = whence.load("reviews-base")
    found = assert_same_explanation(
        post_explain(app, model="reviews-base", text=text, target="bad:good"),
        explainer.explain(text, method="attcat", target="bad:good"),
    )
    assert found["rest"] == "(anything else)"
    assert list(found["prediction"]["probabilities"])[-1] == found["rest"]
    two = "a [MASK] film with a [MASK] ending"
    at = post_explain(app, model="reviews-base", text=two, at="1")
    assert_same_explanation(at, explainer.explain(two, method="attcat", at=1))
    assert_error(post_explain(app, model="reviews-base", text=two, at="7"), 422, "bad-parameter")


def test_explain_endpoint_of_question_answering_equals_the_library(app, folder):
    question, context = "who wrote the music", NAMES
    explainer = whence.load(str(folder / "reader"))
    for target in (None, "start", "Rome"):
        assert_same_explanation(
            post_explain(app, model="reader", text=question, pair=context, target=target),
            explainer.explain((question, context), method="attcat", target=target),
        )


def test_explain_endpoint_of_a_tagger_equals_the_library_by_entity_or_place(app, folder):
    explainer = whence.load(str(folder / "tagger"))
    every = explainer.explain(NAMES, method="attcat")
    assert len(every) > 1  # else the seed shows nothing
    found = assert_same_explanation(post_explain(app, model="tagger", text=NAMES), every[0])
    assert [one["text"] for one in found["entities"]] == [
        one.text for one in explainer.entities(NAMES)
    ]
    assert_same_explanation(post_explain(app, model="tagger", text=NAMES, entity=1), every[1])
    said = post_explain(app, model="tagger", text=NAMES, entity=99)
    assert f"found {len(every)}" in assert_error(said, 422, "bad-parameter")["message"]
    place = assert_same_explanation(
        post_explain(app, model="tagger", text=NAMES, at="Rota"),
        explainer.explain(NAMES, method="attcat", at="Rota"),
    )
    assert place["entities"] == []


def test_flow_endpoint_of_an_entity_begins_at_the_tokens_of_that_entity(app, folder):
    tokens = whence.load(str(folder / "tagger")).entities(NAMES)[1].tokens
    asked = {"input": {"model": "tagger", "text": NAMES, "entity": 1}, "weight": "attention"}
    flow = ask(app, "POST", "/api/flow", json=asked).json()
    begins = {place for place, share in enumerate(flow["nodes"][-1]) if share > 0}
    assert begins <= set(tokens)
    body = {"input": asked["input"], "methods": ["attcat"], "budget": 100}
    job = wait_for_job(app, begin_job(app, "/api/jobs/trust", body))
    assert job["state"] == "done", job["error"]


def test_explain_endpoint_with_zero_shot_labels_equals_the_library(app, folder):
    labels = ["sport", "film"]
    explainer = whence.load(str(folder / "nli"))
    found = assert_same_explanation(
        post_explain(app, model="nli", text="a fine film", labels=labels),
        explainer.explain("a fine film", method="attcat", labels=labels),
    )
    assert set(found["prediction"]["probabilities"]) == set(labels)
    assert found["rest"] is None
    assert_error(post_explain(app, model="nli", text="a", labels=["x"] * 51), 422, "bad-request")


def test_explain_endpoint_of_a_causal_language_model_equals_the_library(app, folder):
    explainer = whence.load(str(folder / "writer"))
    assert_same_explanation(
        post_explain(app, model="writer", text=PROMPT), explainer.explain(PROMPT, method="attcat")
    )
    one = post_explain(app, model="writer", text=PROMPT, answer="bad")
    assert_same_explanation(one, explainer.explain(PROMPT, method="attcat", answer="bad"))
    two = post_explain(app, model="writer", text=PROMPT, answer="bad", rather="good")
    assert_same_explanation(two, explainer.explain(PROMPT, method="attcat", answer=("bad", "good")))
    assert_error(
        post_explain(app, model="writer", text=PROMPT, rather="good"), 422, "bad-parameter"
    )


def test_generate_job_equals_generate_of_the_library_and_refuses_bad_inputs(app, folder):
    body = {"input": {"model": "writer", "text": PROMPT}, "method": "attcat", "tokens": 3}
    job = wait_for_job(app, begin_job(app, "/api/jobs/generate", {**body, "granularity": "word"}))
    assert job["state"] == "done", job["error"]
    made = whence.load(str(folder / "writer")).generate(
        PROMPT, 3, method="attcat", granularity="word"
    )
    assert job["result"]["matrix"] == made.to_dict()["matrix"]
    assert len(job["result"]["matrix"]) == len(job["result"]["outputs"])
    assert_error(
        ask(app, "POST", "/api/jobs/generate", json={**body, "tokens": 201}), 422, "bad-request"
    )
    given = {**body, "input": {**body["input"], "answer": "good film"}}
    made = whence.load(str(folder / "writer")).generate(PROMPT, method="attcat", answer="good film")
    job = wait_for_job(app, begin_job(app, "/api/jobs/generate", given))
    assert job["result"]["matrix"] == made.to_dict()["matrix"]
    for name, value in (("rather", "bad"), ("target", "good"), ("labels", ["a", "b"])):
        asked = {**body, "input": {**body["input"], name: value}}
        job = wait_for_job(app, begin_job(app, "/api/jobs/generate", asked))
        assert job["error"]["code"] == "bad-parameter" and name in job["error"]["message"]
    wrong = {**body, "input": {"model": "tagger", "text": NAMES}}
    job = wait_for_job(app, begin_job(app, "/api/jobs/generate", wrong))
    assert job["state"] == "failed" and job["error"]["code"] != "internal-error"


def test_explain_endpoint_refuses_options_of_another_task(app):
    assert_error(post_explain(app, model="tagger", text=NAMES, answer="x"), 422, "bad-parameter")
    assert_error(
        post_explain(app, model="reader", text="who", pair=NAMES, at="1"), 422, "bad-parameter"
    )
    assert_error(
        post_explain(app, model="writer", text=PROMPT, labels=["a", "b"]), 422, "bad-parameter"
    )
