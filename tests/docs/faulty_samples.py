"""Faulty models (no head, NaN, pickle, no tokenizer) and data files, for code blocks of the docs' error pages."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import transformers as hf
from safetensors.torch import load_file, save_file

from tests import zoo

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def lay_out() -> None:
    """Put everything faulty into the folder that this process is in, beside the scene."""
    for make in (_bare, _overflown, _two_streams, _pickled, _without_tokenizer, _mixed, _files):
        make()


def _copied(name: str, source: str, wanted: Callable[[Path], bool]) -> Path:
    folder = Path(name)
    folder.mkdir()
    for file in filter(wanted, Path(source).iterdir()):
        shutil.copy(file, folder)
    return folder


def _is_tokenizer(file: Path) -> bool:
    return file.name.startswith("tokenizer")


def _bare() -> None:
    """An encoder without a head."""
    folder = _copied("encoder", "my-model", _is_tokenizer)
    config = hf.AutoConfig.from_pretrained("my-model")
    hf.BertModel(config).save_pretrained(folder)


def _overflown() -> None:
    folder = _copied("overflown", "my-model", lambda file: file.name != WEIGHTS)
    weights = load_file(Path("my-model") / WEIGHTS)
    weights["classifier.bias"].fill_(float("nan"))
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def _two_streams() -> None:
    """An encoder and a decoder that classify together."""
    folder = _copied("my-bart", "nli", _is_tokenizer)
    size = json.loads((Path("nli") / CONFIG).read_text())["vocab_size"]
    config = hf.BartConfig(
        vocab_size=size, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
        pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3,
    )  # fmt: skip
    zoo.seeded(lambda: hf.BartForSequenceClassification(config)).save_pretrained(folder)


def _pickled() -> None:
    folder = _copied("old-model", "my-model", lambda file: file.name != WEIGHTS)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle, so to say: it is never opened")


def _without_tokenizer() -> None:
    _copied("only-weights", "my-model", lambda file: file.name in (CONFIG, WEIGHTS))


def _mixed() -> None:
    """A small model with the tokenizer of another."""
    folder = _copied("mixed", "nli", lambda file: file.name in (CONFIG, WEIGHTS))
    for file in filter(_is_tokenizer, Path("my-model").iterdir()):
        shutil.copy(file, folder)


def _files() -> None:
    texts = {
        "films.tsv": "id\tstars\n1\t5\n",
        "marked.jsonl": '{"text": "a fine film", "rationale": [[40, 55]]}\n',
        "neutral.tsv": "text\tlabel\na fine film\tpositive\na film\tneutral\n",
        "wrong.toml": 'model = "my-model"\ndata = "reviews.tsv"\nmethds = ["attcat"]\n',
        "none.toml": 'model = "my-model"\ndata = "reviews.tsv"\nlimit = 0\n',
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    whole = Path("photo.jpg").read_bytes()
    Path("cut.jpg").write_bytes(whole[:2000])
