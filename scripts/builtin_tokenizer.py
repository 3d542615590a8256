"""Tokenizer of the built-in review models: lowercase word pieces, learned from sentences."""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from builtin_recipe import CLS, MAX_TOKENS, PAD, SEP, SPECIAL_TOKENS
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from torch import Tensor


def train_tokenizer(texts: Sequence[str], vocab_size: int) -> Tokenizer:
    """Train a lowercase WordPiece tokenizer; pieces are numbered by frequency, then by spelling."""
    splitter = _build_bare_tokenizer(models.WordPiece(unk_token="[UNK]"))
    words = Counter(
        word
        for text in texts
        for word, _ in splitter.pre_tokenizer.pre_tokenize_str(
            splitter.normalizer.normalize_str(text)
        )
    )
    pieces = learn_pieces(words, vocab_size - len(SPECIAL_TOKENS))
    vocab = {piece: number for number, piece in enumerate((*SPECIAL_TOKENS, *pieces))}
    counter = _build_bare_tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for piece in counter.encode(word, add_special_tokens=False).tokens:
            counts[piece] += times
    ranked = sorted(pieces, key=lambda piece: (-counts[piece], piece))
    vocab = {piece: number for number, piece in enumerate((*SPECIAL_TOKENS, *ranked))}
    tokenizer = _build_bare_tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    return tokenizer


def learn_pieces(words: Counter[str], size: int) -> list[str]:
    """Return all characters, then the most frequent neighbours joined over and over, up to ``size``.

    The trainer of the tokenizers library breaks ties in hash order, so its pieces differ from run
    to run; here a tie goes to the pair that comes first in spelling.
    """
    spelt = [[word[0], *(f"##{letter}" for letter in word[1:])] for word in sorted(words)]
    times = [words[word] for word in sorted(words)]
    pieces = dict.fromkeys(sorted({piece for word in spelt for piece in word}))
    counts: Counter[tuple[str, str]] = Counter()
    places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for number, word in enumerate(spelt):
        for pair in pairwise(word):
            counts[pair] += times[number]
            places[pair].add(number)
    queue = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(queue)
    while len(pieces) < size and queue:
        count, pair = heapq.heappop(queue)
        if -count != counts[pair] or not counts[pair]:
            continue  # an outdated entry; the pair was queued again when its count changed
        joined = pair[0] + pair[1].removeprefix("##")
        pieces.setdefault(joined)
        changed: set[tuple[str, str]] = set()
        for number in sorted(places.pop(pair)):
            before, after = spelt[number], join_pair(spelt[number], pair, joined)
            for sign, word in ((-1, before), (1, after)):
                for neighbours in pairwise(word):
                    counts[neighbours] += sign * times[number]
                    places[neighbours].add(number)
                    changed.add(neighbours)
            spelt[number] = after
        for neighbours in sorted(changed):
            heapq.heappush(queue, (-counts[neighbours], neighbours))
    return list(pieces)


def join_pair(word: list[str], pair: tuple[str, str], joined: str) -> list[str]:
    """Return ``word`` with every occurrence of ``pair`` made into one piece."""
    result: list[str] = []
    at = 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            result.append(joined)
            at += 2
        else:
            result.append(word[at])
            at += 1
    return result


def _build_bare_tokenizer(model: models.WordPiece) -> Tokenizer:
    """Return a tokenizer that cleans and splits text as BERT does, around ``model``."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, positions: int) -> None:
    """Write the two tokenizer files of a Hugging Face folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "cls_token": "[CLS]",
        "do_lower_case": True,
        "mask_token": "[MASK]",
        "model_max_length": positions,
        "pad_token": "[PAD]",
        "sep_token": "[SEP]",
        "tokenizer_class": "BertTokenizer",
        "unk_token": "[UNK]",
    }
    text = json.dumps(settings, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each text, cut to ``MAX_TOKENS``."""
    tokenizer.enable_truncation(MAX_TOKENS)
    rows = [row.ids for row in tokenizer.encode_batch(list(texts))]
    tokenizer.no_truncation()
    return rows


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Stack rows of ids into one tensor, with its attention mask."""
    width = max(len(row) for row in rows)
    stacked = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], device=device)
    return stacked, (stacked != PAD).long()
