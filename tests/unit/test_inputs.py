"""Inputs of explain(): chat messages, special tokens written out, pandas columns, bad entries, tokenizer panics."""

import copy
import json

import pandas
import pytest

import whence
from tests import language_models, zoo
from tests.unit.small_tokenizers import (
    byte_level,
    make_panicking_tokenizer,
    sentencepiece,
    wordpiece,
)
from whence.core.errors import BadEncoding, EmptyText, TooLong
from whence.explain.inputs import InputWarning

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}[answer]{% endif %}"
)
MESSAGES = [{"role": "user", "content": "is the plot thin?"}]


def load_chat_model(tokenizer=byte_level, **more):
    """Return a language model whose tokenizer begins every text with <s>, and has a chat template."""
    own = copy.deepcopy(tokenizer())
    own.chat_template = TEMPLATE
    model = language_models.make("llama")
    model.resize_token_embeddings(400)
    return whence.load(model, tokenizer=own, **more)


@pytest.fixture(scope="module")
def explainer():
    return load_chat_model()


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews")


def test_chat_template_prompt_gets_no_second_bos_token_and_a_warning(explainer):
    tokenizer = explainer.tokenizer
    prompt = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    assert prompt.startswith("<s>")
    wanted = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    with pytest.warns(InputWarning, match="begins with <s> already"):
        found = explainer.explain(prompt, method="grad_x_input")
    assert [token.id for token in found.tokens] == wanted
    assert found.tokens[0].special
    assert [code for code, _ in found.warnings] == ["special-twice"]
    payload = json.loads(json.dumps(found.to_dict()))
    assert payload["warnings"][0]["message"].startswith("The text begins with <s> already")
    assert "begins with <s> already" in str(found)
    assert whence.Explanation.from_dict(payload).warnings == found.warnings
    assert "special-twice" in [one["code"] for one in explainer.inside(found).warnings()]
    with pytest.warns(InputWarning, match="begins with <s> already"):
        made = explainer.generate(prompt, 2, method="gradient")
    assert [token.id for token in made.prompt_tokens] == wanted
    assert made.to_dict()["warnings"] == payload["warnings"]
    assert "begins with <s> already" in str(made)


def test_explain_of_a_text_without_bos_token_has_no_warning(explainer):
    found = explainer.explain("is the plot thin?", method="gradient")
    assert found.warnings == ()
    assert "warnings" not in found.to_dict()


@pytest.mark.parametrize(
    ("kind", "model", "given", "plain"),
    [
        (wordpiece, "bert", "[CLS] a thin plot [SEP]", "a thin plot"),
        (byte_level, "bert", "<s>a thin plot</s>", "a thin plot"),
        (sentencepiece, "t5", "a thin plot</s>", "a thin plot"),
        (byte_level, "bert", ("<s>a thin plot", "a film</s>"), ("a thin plot", "a film")),
    ],
)
def test_text_with_special_tokens_written_out_equals_the_plain_text(kind, model, given, plain):
    own = zoo.make(model)
    own.resize_token_embeddings(400)
    explainer = whence.load(own, tokenizer=kind())
    with pytest.warns(InputWarning):
        found = explainer.explain([given], method="grad_x_input")[0]
    wanted = explainer.explain(plain, method="grad_x_input")
    assert [token.id for token in found.tokens] == [token.id for token in wanted.tokens]
    assert [word.text for word in found.spans] == [word.text for word in wanted.spans]
    assert found.scores == pytest.approx(wanted.scores, abs=1e-12)


def test_length_limit_is_checked_without_the_second_bos_token():
    tokenizer = copy.deepcopy(byte_level())
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    tokenizer.model_max_length = len(tokenizer("a thin plot")["input_ids"])
    explainer = whence.load(model, tokenizer=tokenizer)
    with pytest.warns(InputWarning):
        assert explainer.explain("<s>a thin plot", method="gradient").source.dropped == 0
    with pytest.warns(InputWarning):
        found = explainer.explain("<s>a thin plot film", method="gradient", truncate=True)
    assert len(found.tokens) == tokenizer.model_max_length
    assert [token.special for token in found.tokens].count(True) == 2


def test_causal_lm_prompt_that_ends_with_eos_keeps_that_token_once(explainer):
    end = explainer.tokenizer.eos_token_id
    found = explainer.explain("the plot is thin</s>", method="gradient")
    assert found.tokens[-1].id == end
    assert found.tokens[-2].id != end


def test_chat_messages_are_rendered_by_the_chat_template_of_the_tokenizer(explainer):
    prompt = explainer.tokenizer.apply_chat_template(
        MESSAGES, tokenize=False, add_generation_prompt=True
    )
    found = explainer.explain(MESSAGES, method="gradient")
    assert found.source.text == prompt
    assert found.warnings == ()
    both = explainer.explain([MESSAGES, MESSAGES], method="gradient")
    assert [one.source.text for one in both] == [prompt, prompt]
    assert explainer.generate(MESSAGES, 1, method="gradient").to_dict()["input"]["text"] == prompt


def test_chat_messages_without_a_chat_template_raise_bad_encoding_with_valid_advice(reviews):
    with pytest.raises(BadEncoding, match=r"no chat template.*messages\[-1\]\['content'\]"):
        reviews.explain(MESSAGES)
    assert reviews.explain(MESSAGES[-1]["content"]).source.text == "is the plot thin?"


def test_chat_template_that_raises_gives_bad_encoding_with_its_message():
    explainer = load_chat_model()
    explainer.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(BadEncoding, match="does not take these 1 messages: roles must alternate"):
        explainer.explain(MESSAGES)


def test_explain_takes_a_pandas_series_as_a_list_and_refuses_a_data_frame(reviews):
    texts = ["a good film", "a bad film"]
    found = reviews.explain(pandas.Series(texts, index=[7, 9]), method="gradient")
    assert [one.source.text for one in found] == texts
    with pytest.raises(BadEncoding, match=r"columns 'review', 'stars'.*table\['review'\]"):
        reviews.explain(pandas.DataFrame({"review": texts, "stars": [5, 1]}))


def test_explain_of_a_list_with_an_empty_or_nan_entry_names_the_entry_number(reviews):
    with pytest.raises(EmptyText, match="Input 2 of the list, counted from 0: The text ' ' is"):
        reviews.explain(["a good film", "a bad film", " "])
    with pytest.raises(BadEncoding, match="Input 1 of the list, counted from 0: Cannot explain a"):
        reviews.explain(pandas.Series(["a good film", float("nan")]))


def test_too_long_error_names_the_tokenizer_or_the_model_whose_limit_applies():
    model, tokenizer = zoo.make("bert"), copy.deepcopy(wordpiece())
    model.resize_token_embeddings(400)
    tokenizer.model_max_length = 10
    with pytest.raises(TooLong, match=r"its tokenizer allows at most 10 \(model_max_length"):
        whence.load(model, tokenizer=tokenizer).explain("a thin plot " * 4)
    tokenizer.model_max_length = 60  # the model has 48 places
    with pytest.raises(TooLong, match="the model takes at most 48"):
        whence.load(model, tokenizer=tokenizer).explain("a thin plot " * 20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a classifier and the tokenizer that panics."""
    where = tmp_path_factory.mktemp("panics")
    zoo.make("bert").save_pretrained(where)
    make_panicking_tokenizer().save_pretrained(where)
    return where


def test_panicking_tokenizer_raises_a_base_exception_on_some_texts_only():
    tokenizer = make_panicking_tokenizer()
    with pytest.raises(BaseException, match="non-zero") as caught:
        tokenizer("a plot")
    assert not isinstance(caught.value, Exception)
    assert len(tokenizer("a thin film")["input_ids"]) == 3


def test_tokenizer_panic_becomes_bad_encoding_of_that_text_alone(folder):
    explainer = whence.load(folder)
    with pytest.raises(BadEncoding, match=r"fails on 'a plot' \(PanicException: chunk size"):
        explainer.explain("a plot")
    with pytest.raises(BadEncoding, match="Input 1 of the list"):
        explainer.explain(["a film", "a plot", "a thin film"])
    failed = []
    found = explainer.explain_each(
        ["a film", "a plot", "a thin film"],
        method="gradient",
        failed=lambda number, _, error: failed.append((number, error.code)),
    )
    assert sorted(number for number, _ in found) == [0, 2]
    assert failed == [(1, "bad-encoding")]


def test_run_with_a_tokenizer_panic_completes_and_records_the_error(folder, tmp_path):
    data = tmp_path / "texts.tsv"
    data.write_text("text\tlabel\na film\t0\na plot\t1\na thin film\t0\n")
    for _ in range(2):  # the second time there is nothing left to do
        run = whence.run(
            model=str(folder), data=str(data), out=tmp_path / "out", methods=["gradient"]
        )
        assert run.complete
    rows = {row["row"]: row["error"] for row in run.table("explanations").to_table().to_pylist()}
    assert rows == {0: None, 1: "bad-encoding", 2: None}
