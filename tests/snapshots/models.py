"""Small models for the snapshots, in float64: built-in ones, and others made on the spot from a seed."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import whence

_WORDS = (
    "a the is not and film plot dull gripping story warm funny slow long thin bad good was in it "
    "acted beautifully of rains street wet who lives here anna paris berlin this example about "
    "sports politics team won what where , . ? ring square picture with model goes on to see"
)
WORDS = _WORDS.split()
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZE = {
    "vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 3, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
NLI = ("contradiction", "neutral", "entailment")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def tokenizer(ends: bool = True) -> Any:
    """Return a tokenizer of whole words; `ends` puts [CLS] and [SEP] around a text."""
    words = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    core = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if ends:
        core.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]"} if ends else {"eos_token": "[SEP]"}
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]", model_max_length=48, **names
    )  # fmt: skip


def seeded(model: Any, seed: int = 7) -> Any:
    """Draw all weights of a model by numpy, which draws the same ones everywhere; large enough to bend."""
    draw = np.random.default_rng(seed)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.dim() > 1 or (weight.numel() > 1 and float(weight.std()) > 0):
                drawn = draw.normal(scale=0.25, size=tuple(weight.shape))
                weight.copy_(torch.from_numpy(drawn).to(weight.dtype))
    return model.double().eval()


def _named(labels: tuple[str, ...]) -> dict[str, Any]:
    return {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}


def _bert(head: str, labels: tuple[str, ...] = ()) -> Any:
    config = hf.BertConfig(**SIZE, **(_named(labels) if labels else {}))
    model = seeded(getattr(hf, f"BertFor{head}")(config))
    return whence.load(model, tokenizer=tokenizer())


def _gpt() -> Any:
    config = hf.GPT2Config(
        vocab_size=SIZE["vocab_size"], n_embd=24, n_layer=2, n_head=3, n_positions=64,
        bos_token_id=2, eos_token_id=3, pad_token_id=0,
    )  # fmt: skip
    return whence.load(seeded(hf.GPT2LMHeadModel(config)), tokenizer=tokenizer(ends=False))


def _bart() -> Any:
    config = hf.BartConfig(
        vocab_size=SIZE["vocab_size"], d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, **_named(NLI),
    )  # fmt: skip
    model = seeded(hf.BartForSequenceClassification(config))
    return whence.load(model, tokenizer=tokenizer())


def _clip() -> Any:
    text = {**SIZE, "max_position_embeddings": 48, "bos_token_id": 2, "eos_token_id": 3}
    sight = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3,
             "image_size": 16, "patch_size": 4}  # fmt: skip
    config = hf.CLIPConfig(text_config=text, vision_config=sight, projection_dim=16)
    seen = hf.CLIPImageProcessorPil(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
    )
    return whence.load(seeded(hf.CLIPModel(config)), tokenizer=tokenizer(), processor=seen)


TRAINING = [
    {"text": "a gripping film", "label": "good"},
    {"text": "a dull and slow film", "label": "bad"},
    {"text": "a warm and funny story", "label": "good"},
    {"text": "the plot is thin and slow", "label": "bad"},
] * 3


@cache
def trained() -> Any:
    """Train a model with attention for one epoch, in the folder where the snapshots are made."""
    return whence.train_attention(
        TRAINING, out=Path("attentive"), embedding_size=8, hidden_size=8, epochs=1, device="cpu"
    )


def _attentive() -> Any:
    trained()
    loaded = whence.load("attentive", dtype="float64", device="cpu")
    return whence.load(seeded(loaded.model), tokenizer=loaded.tokenizer)


def picture() -> Any:
    """Return a picture of a gradient and a square."""
    from PIL import Image

    pixels = np.zeros((16, 16, 3), dtype=np.uint8)
    pixels[..., 0] = np.arange(16)[:, None] * 15
    pixels[..., 1] = np.arange(16)[None, :] * 15
    pixels[4:10, 5:12, 2] = 255
    return Image.fromarray(pixels)


_MAKERS: dict[str, Callable[[], Any]] = {
    "reviews": lambda: whence.load("reviews", dtype="float64", device="cpu"),
    "pairs": lambda: _bert("SequenceClassification", NLI),
    "gpt": _gpt,
    "shapes": lambda: whence.load("shapes", dtype="float64", device="cpu"),
    "bart": _bart,
    "attentive": _attentive,
    "answers": lambda: _bert("QuestionAnswering"),
    "tags": lambda: _bert("TokenClassification", TAGS),
    "masked": lambda: _bert("MaskedLM"),
    "base": lambda: whence.load("reviews-base", dtype="float64", device="cpu"),
    "clip": _clip,
}


@cache
def model(name: str) -> Any:
    """Return an explainer of one of the small models."""
    return _MAKERS[name]()
