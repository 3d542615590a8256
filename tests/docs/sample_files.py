"""Sample data, pictures and models that the examples of the documentation work on.

`my-model`, `tuned`, `base` and `my-vit` are built-in models. The others are tiny models with random weights: their
predictions mean nothing.
"""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet
import torch
import transformers as hf
from draw_shapes import draw_scene
from PIL import Image
from tokenizers import (  # fmt: skip
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

import whence
from tests import zoo
from tests.docs import faulty_samples
from tests.task_models import NLI, TAGS
from whence.models.model_files import find_builtin_folder

HERE = Path(__file__).resolve().parent
TEXT = "a gripping, beautifully acted film"
PROMPT = "[[Anna lives in Rome.]] [[Ben lives in Oslo.]] Where does Ben live?"
PLAN = """\
model = "my-model"
data = "reviews.tsv"
out = "results"
methods = ["attcat", "rollout"]
metrics = ["comprehensiveness"]
limit = 8
"""
PAIRS = (
    ("a man plays the guitar", "somebody makes music", "entailment"),
    ("a man plays the guitar", "nobody makes music", "contradiction"),
    ("two dogs run on the beach", "the dogs are tired", "neutral"),
    ("two dogs run on the beach", "animals are outside", "entailment"),
    ("a woman reads a book", "she is asleep", "contradiction"),
    ("a woman reads a book", "the book is long", "neutral"),
)
# What the tiny tokenizers know as whole words.
WORDS = """
Anna Ben Paris Rome Oslo Lyon France lives live lived here Where does Who wrote it the The book
in of course capital is It rains rain street wet film was good bad cat dog a an photo picture
team won sports politics text about This yes no question answer city and country which from
happy sad great terrible
"""
SHAPE = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 256, "pad_token_id": 0,
}  # fmt: skip
LINKED = ("my-model", "tuned", "base", "my-vit", "lm", "qa", "tagger", "mlm", "nli", "clip")


def create_sample_files(folder: Path) -> Path:
    """Make everything that a page may ask for, in a folder that pages look into and do not write to."""
    for name, model in {
        "my-model": "reviews",
        "tuned": "reviews",
        "base": "reviews-base",
        "my-vit": "shapes",
    }.items():
        shutil.copytree(find_builtin_folder(model), folder / name)
    _tiny_models(folder)
    data = folder / "data"
    data.mkdir()
    shutil.copy(HERE / "reviews.tsv", data)
    lines = (HERE / "reviews.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [dict(zip(("text", "label"), line.split("\t"), strict=True)) for line in lines]
    (data / "reviews.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), data / "reviews.parquet")
    pairs = [("premise", "hypothesis", "label"), *PAIRS]
    (data / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in pairs))
    (data / "prompt.txt").write_text(PROMPT + "\n")
    (data / "plan.toml").write_text(PLAN)
    _pictures(data)
    _movies(data / "movies", rows[:6])
    return folder


def lay_out_sample_files(scene: Path, folder: Path) -> Path:
    """Lay the scene out in a fresh folder: models are linked, what may be written to is copied."""
    shutil.copytree(scene / "data", folder, dirs_exist_ok=True)
    for name in LINKED:
        (folder / name).symlink_to(scene / name, target_is_directory=True)
    return folder


def _pictures(folder: Path) -> None:
    Image.fromarray(draw_scene(7).pixels).resize((256, 256)).save(folder / "photo.jpg", quality=95)
    for number in range(6):
        scene = draw_scene(number, objects=1)
        (label,) = scene.labels
        (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
        path = folder / "photos" / label / f"{number}.png"
        Image.fromarray(scene.pixels).save(path)
        Image.fromarray(scene.masks[label]).save(path.with_name(f"{number}_mask.png"))


def _movies(folder: Path, rows: list[dict[str, str]]) -> None:
    """ERASER's format: the first two words of each review are the evidence."""
    (folder / "docs").mkdir(parents=True)
    lines = ""
    for number, row in enumerate(rows):
        name = f"{number}.txt"
        (folder / "docs" / name).write_text(row["text"].replace(",", " ,") + " .\n")
        evidence = {"docid": name, "start_token": 0, "end_token": 2, "text": ""}
        one = {"annotation_id": name, "classification": row["label"], "evidences": [[evidence]]}
        lines += json.dumps({**one, "query": "What is the sentiment of this review?"}) + "\n"
    (folder / "val.jsonl").write_text(lines)


def _tiny_models(folder: Path) -> None:
    words = _wordpiece()
    size = {**SHAPE, "vocab_size": len(words)}
    heads = {"qa": ("QuestionAnswering", ()), "mlm": ("MaskedLM", ()), "tagger": ("TokenClassification", TAGS),
             "nli": ("SequenceClassification", NLI)}  # fmt: skip
    for name, (head, labels) in heads.items():
        named = {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}  # fmt: skip
        config = hf.BertConfig(**size, **(named if labels else {}))
        _save(folder / name, lambda c=config, h=head: getattr(hf, f"BertFor{h}")(c), words)
    pieces = _byte_level()
    spoken = hf.LlamaConfig(
        **{**SHAPE, "max_position_embeddings": 512}, vocab_size=len(pieces), num_key_value_heads=2, bos_token_id=0,
        eos_token_id=1,
    )  # fmt: skip
    _save(folder / "lm", lambda: hf.LlamaForCausalLM(spoken), pieces)
    ends = {"bos_token_id": 2, "eos_token_id": 3, "vocab_size": len(words)}
    sight = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
             "image_size": 32, "patch_size": 8}  # fmt: skip
    both = hf.CLIPConfig(
        text_config={**size, **ends, "num_hidden_layers": 2}, vision_config=sight, projection_dim=16
    )
    _save(folder / "clip", lambda: hf.CLIPModel(both), words)
    square = {"height": 32, "width": 32}
    seen = hf.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=square)
    seen.save_pretrained(folder / "clip")


def _save(folder: Path, maker: Callable[[], Any], tokenizer: Any) -> None:
    zoo.seeded(maker, 7).to(torch.float32).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _wordpiece() -> Any:
    """A tokenizer of BERT's kind: whole words, and letters for all others. Not trained: trainers break ties by chance."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    words = sorted({word.lower() for word in WORDS.split()} - set(letters))
    vocabulary = [*special, *letters, *(f"##{letter}" for letter in letters), *words]
    core = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.add_special_tokens(special)
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=256,
    )  # fmt: skip


def _byte_level() -> Any:
    """A tokenizer of GPT-2's kind: words with the space before them, and bytes."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    core.train_from_iterator([WORDS, *WORDS.split()], trainer)
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<s>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=core, **ends)


@cache
def _explainer(folder: str) -> Any:
    return whence.load(folder)


def _run(folder: str, **changed: Any) -> None:
    whence.run("plan.toml", out=folder, **changed)


# What `<!-- setup: NAME -->` may ask for. Called in the page's folder: a variable for its Python, or a folder (None).
SETUPS: dict[str, Callable[[], Any]] = {
    "whence": lambda: whence,
    "explainer": lambda: _explainer("reviews"),
    "why": lambda: _explainer("reviews").explain(TEXT),
    "prompt": lambda: PROMPT,
    "faulty": faulty_samples.lay_out,
    **{name: lambda name=name: whence.load(name) for name in ("qa", "tagger", "mlm", "lm", "nli", "clip")},
    "vit": lambda: _explainer("shapes"),
    "results": lambda: _run("results"),
    "before": lambda: _run("before"),
    "parts": lambda: [_run(f"part-{part}", shard=f"{part}/2") for part in (1, 2)],
    "after": lambda: _run("after", remove="delete"),
}  # fmt: skip
