"""A tokenizer of whole words: what stands between white space, numbered by how often it occurs."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from whence.core.errors import BadParameter

PAD, UNK, SOS, EOS = SPECIAL = ("<PAD>", "<UNK>", "<SOS>", "<EOS>")


def word_tokenizer(
    texts: Iterable[str],
    min_df: int = 1,
    lowercase: bool = False,
    max_words: int | None = None,
) -> Any:
    """Make a tokenizer with the words of some texts, the commonest first, and equally common ones by the alphabet.

    A word must occur in at least `min_df` texts; at most `max_words` are kept. All others are unknown.
    """
    normalizer = normalizers.Lowercase() if lowercase else None
    split = pre_tokenizers.WhitespaceSplit()
    occurs: Counter[str] = Counter()
    holds: Counter[str] = Counter()
    for text in texts:
        text = normalizer.normalize_str(text) if normalizer else text
        words = [word for word, _ in split.pre_tokenize_str(text)]
        occurs.update(words)
        holds.update(set(words))
    known = [word for word in occurs if holds[word] >= min_df and word not in SPECIAL]
    if not known:
        raise BadParameter(
            f"There is no word in the texts that occurs in at least min_df={min_df} of them. Lower it, or give more."
        )
    known = sorted(known, key=lambda word: (-occurs[word], word))[:max_words]
    ids = {word: number for number, word in enumerate([*SPECIAL, *known])}
    made = Tokenizer(models.WordLevel(ids, unk_token=UNK))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = split
    made.post_processor = processors.TemplateProcessing(
        single=f"{SOS}:0 $A:0 {EOS}:0",
        pair=f"{SOS}:0 $A:0 {EOS}:0 {SOS}:1 $B:1 {EOS}:1",
        special_tokens=[(SOS, ids[SOS]), (EOS, ids[EOS])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        unk_token=UNK,
        bos_token=SOS,
        eos_token=EOS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )
