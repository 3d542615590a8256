"""Hub data sets by name or folder: guessed split and columns, configurations, and errors when unreachable."""

import subprocess
import sys

import datasets
import pytest

from whence.core.errors import BadExamples
from whence.data import hub_datasets
from whence.data.dataset import read_dataset
from whence.data.example import Example


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Keep what the package makes of a folder out of the user's cache."""
    monkeypatch.setattr(
        datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("datasets"))
    )


def make_split(texts, labels, names=("negative", "positive")):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=list(names))}
    )
    return datasets.Dataset.from_dict({"text": texts, "label": labels}, features=features)


@pytest.fixture
def folder(tmp_path):
    """Write a data set of two splits."""
    home = tmp_path / "films"
    home.mkdir()
    make_split(["a", "b"], [1, 0]).to_parquet(home / "train.parquet")
    make_split(["c", "d", "e"], [0, 1, -1]).to_parquet(home / "validation.parquet")
    return home


def test_read_dataset_of_a_folder_guesses_split_text_and_label(folder):
    found = read_dataset(folder)
    assert found.name == "the data files in films:validation"
    assert found.examples == [Example("c", "negative"), Example("d", "positive"), Example("e")]
    assert found.guessed == ("split", "text", "label")
    assert "guessed: split, text, label" in str(found)


def test_read_dataset_with_split_and_columns_named_guesses_nothing(folder):
    found = read_dataset(f"{folder}:train", text="text", label="label")
    assert found.name == "the data files in films:train"
    assert found.examples == [Example("a", "positive"), Example("b", "negative")]
    assert found.guessed == ()
    assert read_dataset(f"{folder}:default:train").examples == found.examples
    assert read_dataset(f"{folder}:default:").name == "the data files in films:default:validation"


def test_read_dataset_prefers_a_split_with_labels_to_one_without(folder):
    make_split(["x", "y"], [-1, -1]).to_parquet(folder / "test.parquet")
    assert read_dataset(folder).name.endswith(":validation")
    assert [one.label for one in read_dataset(f"{folder}:test").examples] == [None, None]
    make_split(["x", "y"], [-1, 0]).to_parquet(folder / "test.parquet")
    assert read_dataset(folder).name.endswith(":test")


def test_read_dataset_with_several_configurations_needs_one_named_and_takes_name_config(tmp_path):
    home = tmp_path / "tasks"
    for task, text in (("nli", "n"), ("sst", "s")):
        (home / task).mkdir(parents=True)
        make_split([text, text], [0, 1]).to_parquet(home / task / "train.parquet")
    configs = "".join(f"- config_name: {t}\n  data_files: {t}/*.parquet\n" for t in ("nli", "sst"))
    (home / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    found = read_dataset(f"{home}:sst")
    assert found.name == "the data files in tasks:sst:train"
    assert found.examples[0].given == "s"
    with pytest.raises(BadExamples, match=r"Please pick one among .*nli.*sst.*NAME:CONFIG:SPLIT"):
        read_dataset(home)
    with pytest.raises(BadExamples, match=r"has no split 'dev'; it has train"):
        read_dataset(f"{home}:nli:dev")


def test_read_dataset_of_a_folder_with_jsonl_reads_pairs_and_gold_labels(tmp_path):
    (tmp_path / "train.jsonl").write_text(
        '{"premise": "p", "hypothesis": "h", "gold_label": "x"}\n'
    )
    found = read_dataset(tmp_path)
    assert found.examples == [Example(("p", "h"), "x")]
    assert (found.text, found.pair, found.label) == ("premise", "hypothesis", "gold_label")


def test_read_dataset_of_a_folder_with_images_leaves_images_out(tmp_path):
    from PIL import Image

    (tmp_path / "train").mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "train" / "a.png")
    (tmp_path / "train" / "metadata.jsonl").write_text('{"file_name": "a.png", "text": "grey"}\n')
    assert read_dataset(tmp_path).examples == [Example("grey")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{folder}:dev", r"has no split 'dev'; it has train, validation"),
        ("{folder}:trian", r"Did you mean 'train'\?"),
        ("{folder}:none:train", r"cannot be loaded: .*'none' not found.*NAME:CONFIG:SPLIT"),
        ("{folder}:a:b:c", r"is named by NAME, NAME:SPLIT or NAME:CONFIG:SPLIT"),
    ],
)
def test_read_dataset_of_an_unknown_split_or_configuration_names_the_known_ones(
    folder, given, said
):
    with pytest.raises(BadExamples, match=said):
        read_dataset(given.format(folder=folder))


def test_read_dataset_of_empty_or_damaged_folders_raises_and_prints_nothing(tmp_path, capsys):
    with pytest.raises(BadExamples, match="cannot be loaded: "):
        read_dataset(tmp_path)
    (tmp_path / "train.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(BadExamples, match="cannot be loaded: "):
        read_dataset(tmp_path)
    assert capsys.readouterr() == ("", "")  # the error says it, and nobody else
    (tmp_path / "train.parquet").unlink()
    make_split([], []).to_parquet(tmp_path / "train.parquet")
    with pytest.raises(BadExamples, match=r"cannot be loaded: .* no data\."):
        read_dataset(tmp_path)


@pytest.mark.parametrize("name", ["someone/nothing", "nothing-of-that-name:test"])
def test_read_dataset_by_name_while_the_hub_is_unreachable_raises_bad_examples(monkeypatch, name):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(
        BadExamples, match=r"There is no file '.*', and the Hub, .* does not answer"
    ):
        read_dataset(name)
    assert not datasets.config.HF_HUB_OFFLINE
    assert datasets.is_progress_bar_enabled()


def test_is_dataset_name_is_true_of_hub_names_and_false_of_file_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("imdb", "stanfordnlp/imdb", "glue:sst2:validation", "a.b/c-d_1"):
        assert hub_datasets.is_dataset_name(name)
    for file in (
        "a.tsv",
        "b/a.parquet",
        "a.jsonl.gz",
        "./a",
        "/a/b",
        "~/a",
        "a/b/c",
        "",
        "a b",
        "C:\\a.tsv",
    ):
        assert not hub_datasets.is_dataset_name(file)
    (tmp_path / "plain").write_text("a\n")
    assert not hub_datasets.is_dataset_name("plain")
    with pytest.raises(
        BadExamples, match="plain: without an ending it is no kind of file that is read here"
    ):
        read_dataset("plain")


@pytest.mark.parametrize(
    ("prepared", "said"),
    [
        ("sys.modules['datasets'] = None", "pip install 'whence[hub]'"),
        (
            "sys.modules['datasets'] = types.SimpleNamespace(__version__='3.6.0')",
            "3.6.0 can be made to run code",
        ),
        (
            "sys.modules['datasets'] = types.SimpleNamespace(__version__='5.0.0')",
            "or to open files that are none of the data set's",
        ),
    ],
)
def test_reading_a_hub_name_without_a_usable_datasets_package_names_the_remedy(prepared, said):
    program = (
        f"import sys, types; {prepared}\n"
        "from whence.data.dataset import read_dataset\n"
        "try: read_dataset('imdb')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("BadExamples ")
    assert said in done.stdout
