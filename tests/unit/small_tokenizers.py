"""Small tokenizers for tests: WordPiece, byte-level BPE, SentencePiece; and one that panics in Rust.

Each gives a text the same ids in every process. The trainers of `tokenizers` do not: they break ties in the order of a
hash map. So the vocabularies of WordPiece and SentencePiece, trained once on these texts, are files beside this one;
the byte-level trainer gave the same in five processes.
"""

import json
from functools import cache
from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

_HERE = Path(__file__).parent
TEXTS = [
    "a gripping, beautifully acted film",
    "don't watch it: the plot is well-made but thin...",
    "Ünïcödé naïve café résumé",
    "我们爱北京天安门", "これは良い映画です", "한국어 문장은 띄어쓰기가 있다",
    "नमस्ते दुनिया", "emoji 👍🏽 and 👨‍👩‍👧 family", "1,234.56 dollars & 50% off",
]  # fmt: skip


@cache
def wordpiece() -> PreTrainedTokenizerFast:
    words = json.loads(_HERE.joinpath("small_wordpiece.json").read_text(encoding="utf-8"))
    vocabulary = {word: i for i, word in enumerate(words)}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.add_special_tokens(words[:5])
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip


@cache
def byte_level() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        TEXTS * 3,
        trainers.BpeTrainer(
            vocab_size=380, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=alphabet
        ),
    )
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="<pad>", cls_token="<s>"
    )


@cache
def sentencepiece() -> PreTrainedTokenizerFast:
    pieces = json.loads(_HERE.joinpath("small_sentencepiece.json").read_text(encoding="utf-8"))
    core = Tokenizer(models.Unigram([tuple(piece) for piece in pieces], unk_id=2))
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.add_special_tokens(["<s>", "</s>", "<unk>"])
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="</s>",
    )


KINDS = {"wordpiece": wordpiece, "byte_level": byte_level, "sentencepiece": sentencepiece}


def make_panicking_tokenizer():
    """Return a tokenizer whose Rust code panics on every word that is not in its list."""
    known = ["a", "thin", "good", "bad", "film", *(f"word{i}" for i in range(16))]
    core = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1}, unk_token="[UNK]"))
    core.add_tokens([AddedToken(word, lstrip=True, normalized=False) for word in known])
    core.pre_tokenizer = pre_tokenizers.FixedLength(length=0)  # which no piece of text survives
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]")
