"""`train_attention`: examples, options, folders and word vectors, up to a model that `whence.load` takes."""

import gzip
import json
import os

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import whence
from tests.progress_news import NewsListener
from whence.core.errors import BadExamples, BadParameter, CannotWrite
from whence.core.seed import build_generator
from whence.data.example import Example
from whence.studies.training.fit import Epoch
from whence.studies.training.recipe import Recipe
from whence.studies.training.train import Lengths, read_corpus, train_attention
from whence.studies.training.vectors import load_vectors

TELLS = ("awful", "fine", "superb")  # one of them stands in every text, and says its label
OTHERS = [
    "the",
    "a",
    "film",
    "plot",
    "actor",
    "scene",
    "was",
    "is",
    "and",
    "with",
    "of",
    "music",
    "ending",
    "story",
]
SMALL = {
    "hidden_size": 8,
    "embedding_size": 8,
    "epochs": 12,
    "batch_size": 8,
    "learning_rate": 0.02,
}


def reviews(n=80, labels=2, seed=0):
    """Make texts whose label is one word."""
    rng = build_generator("reviews", seed)
    made = []
    for number in range(n):
        words = [str(w) for w in rng.choice(OTHERS, int(rng.integers(2, 9)))]
        words.insert(int(rng.integers(len(words) + 1)), TELLS[number % labels])
        made.append(Example(" ".join(words), ("bad", "good", "great")[number % labels]))
    return made


@pytest.mark.parametrize(
    ("encoder", "attention", "labels"),
    [("bilstm", "tanh", 2), ("cnn", "dot", 2), ("average", "additive", 3), ("Bi-LSTM", "uniform", 2)],
)  # fmt: skip
def test_train_attention_on_a_one_word_task_reaches_full_accuracy(
    tmp_path, encoder, attention, labels
):
    trained = train_attention(
        reviews(labels=labels), dev=reviews(40, labels, seed=1), test=reviews(40, labels, seed=2),
        encoder=encoder, attention=attention, out=tmp_path / "model", **SMALL,
    )  # fmt: skip
    assert trained.dev.accuracy == trained.test.accuracy == trained.test.f1 == 1
    assert trained.test.n == 40
    assert trained.labels == ("bad", "good", "great")[:labels]
    explainer = whence.load(trained.folder)
    for word, label in zip(TELLS[:labels], trained.labels, strict=True):
        said = explainer.explain(f"the plot was {word}", method="leave_one_out").prediction
        assert said.label == label
    # What it was trained by is in its configuration, and can be taken up again.
    record = explainer.model.config.training
    recipe = Recipe.from_dict({k: v for k, v in record.items() if k in Recipe().to_dict()})
    assert (recipe.epochs, recipe.pos_weight) == (12, labels == 2)
    assert record["dev"]["accuracy"] == 1
    assert not (tmp_path / "model" / "training").exists()


def test_train_attention_on_pairs_learns_from_the_second_text(tmp_path):
    """The text has two colours of two things, and the question names one of them: neither alone says the answer."""
    rng = build_generator("pairs")
    pairs = []
    for _ in range(240):
        car, hat = (str(c) for c in rng.choice(["red", "blue"], 2))
        asked, answer = (("car", car), ("hat", hat))[int(rng.integers(2))]
        pairs.append({"premise": f"car-{car} hat-{hat}", "hypothesis": asked, "label": answer})
    trained = train_attention(
        pairs, encoder="average", attention="tanh", out=tmp_path / "m", hidden_size=16, embedding_size=16,
        epochs=20, batch_size=16, learning_rate=0.02,
    )  # fmt: skip
    assert trained.dev.accuracy == 1
    config = whence.load(trained.folder).model.config
    assert config.query
    assert not config.training["pos_weight"]
    assert trained.notes[0].startswith(
        "Read the examples, texts from 'premise', second texts from 'hypothesis'"
    )


def test_answers_in_passage_limits_the_labels_to_words_of_the_passage(tmp_path):
    rows = [
        (("red here", "which"), "red"),
        (("blue here", "which"), "blue"),
        (("green x", "which"), "green"),
    ]
    given = [Example(pair, label) for pair, label in rows * 4]
    trained = train_attention(
        given, out=tmp_path / "m", answers_in_passage=True, **{**SMALL, "epochs": 1}
    )
    said = whence.load(trained.folder).explain(("green x", "which"), method="gradient").prediction
    assert said.probabilities["green"] == pytest.approx(1)
    with pytest.raises(BadParameter, match="the label 'yes' is no word of the training texts"):
        odd = [Example(("a b", "c"), label) for label in ("yes", "a")] * 4
        train_attention(odd, out=tmp_path / "n", answers_in_passage=True, **SMALL)


def test_train_attention_reuses_a_finished_model_and_refuses_other_settings(tmp_path):
    out = tmp_path / "deep" / "down" / "model"
    given = {**SMALL, "epochs": 2}
    first = train_attention(reviews(), out=out, **given)
    files = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    seen = []
    again = train_attention(
        reviews(), out=out, progress=NewsListener(seen.append), test=reviews(10), **given
    )
    assert not any(isinstance(news, Epoch) for news in seen)
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == files
    assert again.dev == first.dev
    assert again.test.n == 10
    assert again.notes[-1].endswith("nothing was trained again.")
    for changed, said in (
        ({"encoder": "cnn"}, "encoder was 'bilstm', now 'cnn'"),
        ({"seed": 1}, "seed was 0, now 1"),
        ({"min_df": 2}, "min_df was 1, now 2"),
    ):
        with pytest.raises(BadParameter, match=f"holds another model: .*{said}"):
            train_attention(reviews(), out=out, **{**given, **changed})


class Killed(BaseException):
    """Whatever ends a process."""


def test_train_attention_after_an_interruption_resumes_to_the_same_bytes(tmp_path):
    given = {**SMALL, "epochs": 3}
    train_attention(reviews(), out=tmp_path / "straight", **given)

    def stop(epoch):
        if isinstance(epoch, Epoch) and epoch.number == 2:
            raise Killed

    with pytest.raises(Killed):
        train_attention(reviews(), out=tmp_path / "stopped", progress=NewsListener(stop), **given)
    with pytest.raises(
        BadParameter, match="keeps another training: attention was 'tanh', now 'dot'"
    ):
        train_attention(reviews(), out=tmp_path / "stopped", attention="dot", **given)
    said = []
    train_attention(
        reviews(), out=tmp_path / "stopped", progress=NewsListener(said.append), **given
    )
    assert [note for note in said if isinstance(note, str)][-1] == (
        "Going on from epoch 3: the earlier ones are kept."
    )
    files = sorted(path.name for path in (tmp_path / "straight").iterdir())
    assert files == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert files == sorted(path.name for path in (tmp_path / "stopped").iterdir())
    for name in files:
        one, two = ((tmp_path / folder / name) for folder in ("straight", "stopped"))
        assert one.read_bytes() == two.read_bytes()
        assert one.stat().st_mode == (tmp_path / "straight" / "config.json").stat().st_mode


def test_train_attention_gives_equal_weights_for_one_seed_and_others_for_another(tmp_path):
    given = {**SMALL, "epochs": 1, "dev": reviews(10)}
    found = [
        train_attention(reviews(), out=tmp_path / str(n), seed=seed, **given)
        for n, seed in enumerate((0, 0, 1))
    ]
    tensors = [load_file(one.folder / "model.safetensors") for one in found]
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])
    assert not any(
        torch.equal(tensors[0][name][1:], tensors[2][name][1:]) for name in ("embeddings.weight",)
    )


# --- the examples ---


def corpus(
    train,
    dev=None,
    test=None,
    *,
    text=None,
    pair=None,
    label=None,
    least=None,
    most=None,
    query=None,
    seed=0,
):
    return read_corpus(
        train, dev, test, columns={"text": text, "pair": pair, "label": label}, lengths=Lengths(least, most), query=query, seed=seed
    )  # fmt: skip


def test_read_corpus_draws_a_development_set_from_every_label_by_seed():
    given = [Example(f"word{n}", "rare" if n < 20 else "common") for n in range(120)]
    found = corpus(given)
    assert found.labels == ("common", "rare")
    assert (len(found.train), len(found.dev), found.test) == (102, 18, None)
    assert found.dev.labels.count(1) == 3  # 15 % of 20
    assert {e.given for e in found.train.examples} | {e.given for e in found.dev.examples} == {
        e.given for e in given
    }
    assert "18 of 120 training examples were drawn" in found.notes[-1]
    assert corpus(given).dev == found.dev
    assert corpus(given, seed=1).dev != found.dev


def test_read_corpus_sorts_numeric_labels_by_their_number():
    given = [Example(f"w{n}", str(n % 11)) for n in range(33)]
    assert corpus(given).labels == tuple(str(n) for n in range(11))
    assert corpus([Example("a", "b"), Example("c", " a")] * 2).labels == ("a", "b")


def test_read_corpus_length_limits_exclude_both_bounds():
    given = [Example(" ".join("w" * n), "ab"[n % 2]) for n in range(1, 9)] + [Example("  ", "a")]
    found = corpus(given, dev=given, least=2, most=7)
    assert sorted(len(e.given.split()) for e in found.train.examples) == [3, 4, 5, 6]
    assert len(found.dev) == 4
    assert (
        found.notes[0]
        == "5 of 9 examples of the examples do not have more than 2 and fewer than 7 words."
    )
    assert len(corpus(given, dev=given).train) == 8


@pytest.mark.parametrize(
    ("given", "others", "said"),
    [
        (["a text", "another"], {}, "None of the 2 examples has a label"),
        ([Example("a", "x"), Example("b")], {}, "1 of 2 examples have no label"),
        ([Example("a", "x"), Example("b", "x")], {}, "All 2 examples have the label 'x'"),
        ([Example("a", "x"), Example("b", "y")], {"least": 3}, "Nothing is left of the 2 .* more than 3 words"),
        ([Example(" ", "x"), Example("", "y")], {}, "Nothing is left of the 2 examples .* none has a word"),
        ([Example(f"a{n}", f"a{n}") for n in range(9)], {}, "Every one of the 9 examples has a label of its own"),
        ([Example("a", "x"), Example("b", "y")], {"query": True}, "2 examples of one text, and pairs are wanted"),
        ([Example(("a", "b"), "x"), Example("b", "y")], {}, "1 examples of one text, and pairs are wanted"),
        ([Example(("a", "b"), "x"), Example(("b", "c"), "y")], {"query": False}, "2 examples of two texts"),
        ([{"review": "a", "stars": 1}], {"label": "mark"}, "no column 'mark'; it has review, stars"),
    ],
)  # fmt: skip
def test_read_corpus_of_untrainable_examples_raises_bad_examples(given, others, said):
    with pytest.raises(BadExamples, match=said):
        corpus(given, **others)


def test_read_corpus_with_a_dev_label_absent_from_training_raises_bad_examples():
    with pytest.raises(
        BadExamples, match=r"The label 'z' .* is not one of the model's: 0 'x', 1 'y'"
    ):
        corpus([Example("a", "x"), Example("b", "y")], dev=[Example("a", "z"), Example("b", "x")])


def test_train_attention_vocabulary_follows_min_df_lowercase_and_given_words(tmp_path):
    given = [Example("One one two", "a"), Example("two Three", "b")] * 2
    quick = {**SMALL, "epochs": 1, "dev": given}

    def known(name, **others):
        found = train_attention(given, out=tmp_path / name, **quick, **others)
        return set(whence.load(found.folder).tokenizer.get_vocab()) - {
            "<PAD>",
            "<UNK>",
            "<SOS>",
            "<EOS>",
        }

    assert known("all") == {"One", "one", "two", "Three"}
    assert known("often", min_df=3) == {"two"}
    assert known("lower", lowercase=True) == {"one", "two", "three"}
    assert known("given", vocabulary=["two", "four"]) == {"two", "four"}


# --- the folder ---


def assert_folder_refused(tmp_path, out, said):
    seen = []
    with pytest.raises(CannotWrite, match=said):
        train_attention(reviews(), out=out, progress=NewsListener(seen.append), **SMALL)
    assert seen == []


def test_train_attention_into_a_file_or_foreign_folder_raises_cannot_write(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert_folder_refused(tmp_path, tmp_path / "file", "is a file. Give the name of a folder")
    assert_folder_refused(tmp_path, tmp_path / "file" / "model", "file' is a file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    assert_folder_refused(
        tmp_path,
        tmp_path / "full",
        r"holds something else \(thesis.tex\). Give a new or an empty folder",
    )
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    assert_folder_refused(tmp_path, tmp_path / "bert", r"holds something else \(config.json\)")


def test_train_attention_without_write_permission_raises_cannot_write(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)  # root may write anywhere; nobody may not
    try:
        assert_folder_refused(tmp_path, tmp_path / "closed" / "model", "no permission")
    finally:
        os.seteuid(mine)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"encoder": "gru"}, "encoder must be one of bilstm, cnn, average. Got 'gru'"),
        ({"attention": "dots"}, "attention must be one of tanh, dot, uniform. Got 'dots'. Did you mean 'dot'"),
        ({"recipe": "texts"}, "There is no recipe 'texts'; there are text, query.*Did you mean 'text'"),
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"min_df": 99}, "min_df=99"),
        ({"device": "toaster"}, "The device 'toaster' cannot be used"),
    ],
)  # fmt: skip
def test_train_attention_with_a_bad_option_raises_bad_parameter_and_makes_no_folder(
    tmp_path, given, said
):
    with pytest.raises(BadParameter, match=said):
        train_attention(reviews(), out=tmp_path / "m", **{**SMALL, **given})
    assert not (tmp_path / "m").exists()


# --- word vectors ---


@pytest.mark.parametrize("name", ["glove.txt", "fast.vec", "packed.txt.gz"])
def test_load_vectors_reads_known_words_from_a_file_and_draws_the_others(tmp_path, name):
    lines = ["film 1 2 3", "plot 4 5 6", "two words 7 8 9", "unused 0 0 0"]
    lines = ["4 3", *lines] if name == "fast.vec" else lines
    raw = ("\n".join(lines) + "\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    found = load_vectors(["plot", "missing", "film"], tmp_path / name, seed=0)
    assert (found.known, found.size) == (2, 3)
    assert found.rows[[0, 2]].tolist() == [[4, 5, 6], [1, 2, 3]]
    assert str(found) == f"2 of 3 words have a vector in {name}; the others were drawn."
    # Three draws of the spread of 1 to 6, whose standard deviation is 1.7: none is ten times that.
    assert 0 < np.abs(found.rows[1]).max() < 17
    assert (
        found.rows[1] != load_vectors(["plot", "missing"], tmp_path / name, seed=1).rows[1]
    ).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("film 1 2 3\nplot 1 x 3\n", "line 2: 3 fields after the word, not 3 numbers"),
        ("film 1 2 3\nplot 1 nan 3\n", "line 2"),
        ("other 1 2 3\n", "has a vector for none of the 2 words"),
        ("\n", "has a vector for none of the 2 words"),
        ("film 1 2 \udcff\n", "Cannot read the vectors"),
    ],
)
def test_load_vectors_from_a_bad_file_raises_bad_examples(tmp_path, text, said):
    (tmp_path / "v.txt").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadExamples, match=said):
        load_vectors(["film", "plot"], tmp_path / "v.txt", seed=0)


def test_load_vectors_from_a_model_averages_the_embeddings_of_subword_tokens(tmp_path):
    explainer = whence.load("reviews")
    table = explainer.model.get_input_embeddings().weight.detach().double().numpy()
    words = ["film", "gripping", "unwatchable"]
    found = load_vectors(words, "reviews", seed=0)
    for word, vector in zip(words, found.rows, strict=True):
        ids = explainer.tokenizer(word, add_special_tokens=False)["input_ids"]
        np.testing.assert_array_equal(vector, table[ids].mean(0))
    assert (
        max(len(explainer.tokenizer(w, add_special_tokens=False)["input_ids"]) for w in words) > 1
    )
    trained = train_attention(
        reviews(), out=tmp_path / "m", vectors="reviews", hidden_size=8, recipe=Recipe(epochs=1, learning_rate=0)
    )  # fmt: skip
    weight = whence.load(trained.folder).model.get_input_embeddings().weight.detach().numpy()
    place = whence.load(trained.folder).tokenizer.get_vocab()["film"]
    np.testing.assert_array_equal(weight[place], found.rows[0].astype(np.float32))
    assert not weight[0].any()  # padding
    assert trained.notes[-1].endswith("words have a vector in reviews; the others were drawn.")
    with pytest.raises(BadParameter, match=r"have \d+ numbers, not embedding_size=7"):
        train_attention(reviews(), out=tmp_path / "n", vectors="reviews", embedding_size=7)


def test_training_to_dict_is_json_with_history_sizes_and_results(tmp_path):
    trained = train_attention(
        reviews(), test=reviews(10), out=tmp_path / "m", **{**SMALL, "epochs": 2}
    )
    told = json.loads(json.dumps(trained.to_dict()))
    assert (told["version"], told["kind"], told["labels"]) == (1, "training", ["bad", "good"])
    assert told["model"]["encoder"] == "bilstm"
    assert told["recipe"]["epochs"] == 2
    assert [epoch["number"] for epoch in told["history"]] == [1, 2]
    assert told["sizes"]["test"] == told["test"]["n"] == 10
    assert whence.train_attention is train_attention
