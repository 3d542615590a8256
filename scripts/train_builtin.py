"""Make the two built-in review models, ``reviews-base`` and ``reviews``, from SST-2.

Three stages, each seeded and run on one CPU thread, so that two runs on one machine with the same
versions write the same bytes:

1. a lowercase WordPiece vocabulary from the training sentences;
2. ``reviews-base``: a small BERT trained from scratch as a masked language model on them;
3. ``reviews``: the same encoder, fine-tuned to match the logits of a larger teacher on the
   training sentences and on altered copies of them, and to predict their labels.

Run from anywhere; the defaults are relative to the repository root::

    python scripts/train_builtin.py            # about 45 minutes on one thread
    python scripts/train_builtin.py --check    # only measure the folders that are there
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import safetensors
import tokenizers
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
)

ROOT = Path(__file__).resolve().parents[1]
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(len(SPECIAL_TOKENS))
LABELS = ("negative", "positive")
MAX_TOKENS = 128


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights; the model cards print it."""

    seed: int = 20
    vocab_size: int = 7500
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    intermediate_size: int = 512
    positions: int = 256
    batch_size: int = 64
    weight_decay: float = 0.01
    warmup: float = 0.06
    mlm_epochs: int = 6
    mlm_rate: float = 1.5e-3
    mlm_masked: float = 0.25
    altered_copies: int = 2
    joined: float = 0.5
    epochs: int = 3
    rate: float = 3e-4
    hard_weight: float = 0.3
    state_weight: float = 2.0


@dataclass(frozen=True)
class Sentences:
    """Rows of one SST-2 file."""

    texts: list[str]
    labels: list[int]


@dataclass(frozen=True)
class Targets:
    """What the student learns from: token ids, teacher outputs, and the label (-1: none)."""

    ids: list[list[int]]
    logits: Tensor
    states: Tensor
    labels: Tensor


def read_rows(path: Path) -> Sentences:
    """Read ``sentence<TAB>label`` rows below a header; SST-2 has no quoting."""
    texts, labels = [], []
    with path.open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            text, label = line.rstrip("\n").split("\t")
            texts.append(text)
            labels.append(int(label))
    return Sentences(texts, labels)


# --- vocabulary ------------------------------------------------------------------------------


def train_tokenizer(texts: Sequence[str], vocab_size: int) -> Tokenizer:
    """A lowercase WordPiece tokenizer; pieces are numbered by frequency, then by spelling."""
    splitter = _bare_tokenizer(models.WordPiece(unk_token="[UNK]"))
    words = Counter(
        word
        for text in texts
        for word, _ in splitter.pre_tokenizer.pre_tokenize_str(
            splitter.normalizer.normalize_str(text)
        )
    )
    pieces = learn_pieces(words, vocab_size - len(SPECIAL_TOKENS))
    vocab = {piece: number for number, piece in enumerate((*SPECIAL_TOKENS, *pieces))}
    counter = _bare_tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for piece in counter.encode(word, add_special_tokens=False).tokens:
            counts[piece] += times
    ranked = sorted(pieces, key=lambda piece: (-counts[piece], piece))
    vocab = {piece: number for number, piece in enumerate((*SPECIAL_TOKENS, *ranked))}
    tokenizer = _bare_tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    return tokenizer


def learn_pieces(words: Counter[str], size: int) -> list[str]:
    """All characters, then the most frequent neighbours joined over and over, up to ``size``.

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
    """``word`` with every occurrence of ``pair`` made into one piece."""
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


def _bare_tokenizer(model: models.WordPiece) -> Tokenizer:
    """A tokenizer that cleans and splits text as BERT does, around ``model``."""
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
    """Token ids of each text, cut to ``MAX_TOKENS``."""
    tokenizer.enable_truncation(MAX_TOKENS)
    rows = [row.ids for row in tokenizer.encode_batch(list(texts))]
    tokenizer.no_truncation()
    return rows


# --- batches and optimisation ----------------------------------------------------------------


def batches(ids: Sequence[Sequence[int]], size: int, rng: random.Random) -> list[list[int]]:
    """Row numbers in random batches of rows of like length, so that little is padding."""
    order = list(range(len(ids)))
    rng.shuffle(order)
    pool = size * 50
    made: list[list[int]] = []
    for start in range(0, len(order), pool):
        part = sorted(order[start : start + pool], key=lambda row: len(ids[row]))
        made += [part[at : at + size] for at in range(0, len(part), size)]
    rng.shuffle(made)
    return made


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Stack rows of ids into one tensor, with its attention mask."""
    width = max(len(row) for row in rows)
    stacked = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], device=device)
    return stacked, (stacked != PAD).long()


class Trainer:
    """AdamW with a linear warm-up and decay, gradient clipping, and a progress line."""

    def __init__(
        self, name: str, parameters: Sequence[nn.Parameter], rate: float, steps: int, recipe: Recipe
    ) -> None:
        decayed = [p for p in parameters if p.ndim > 1]
        plain = [p for p in parameters if p.ndim <= 1]
        groups = [
            {"params": decayed, "weight_decay": recipe.weight_decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        self.name, self.steps, self.done = name, steps, 0
        self.parameters = list(parameters)
        self.optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), eps=1e-6)
        warm = max(1, round(recipe.warmup * steps))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: min((step + 1) / warm, max(0.0, (steps - step) / (steps - warm))),
        )
        self.started = time.monotonic()
        self.mean_loss: float | None = None

    def step(self, loss: Tensor) -> None:
        """Take one optimisation step down ``loss``."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        if self.done % 100 == 0 or self.done == self.steps:
            value = loss.item()
            self.mean_loss = value if self.mean_loss is None else 0.8 * self.mean_loss + 0.2 * value
            report(self.name, self.done, self.steps, self.started, f"loss {self.mean_loss:.3f}")


def report(name: str, done: int, total: int, started: float, note: str = "") -> None:
    """Progress on standard error: one line rewritten on a terminal, sparse lines elsewhere."""
    seconds = time.monotonic() - started
    line = f"{name}: {done}/{total}  {seconds:.0f} s  {note}"
    if sys.stderr.isatty():
        print(f"\r{line:<78}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or done % 1000 == 0:
        print(line, file=sys.stderr, flush=True)


# --- masked language model -------------------------------------------------------------------


def mask_tokens(ids: Tensor, rate: float, vocab_size: int) -> tuple[Tensor, Tensor]:
    """BERT's corruption: of the chosen tokens 80% become [MASK], 10% random, 10% stay.

    Returns the corrupted ids and which positions were chosen. A batch always gets at least one
    choice, because a loss over none is not a number.
    """
    ordinary = ids >= len(SPECIAL_TOKENS)
    chosen = ordinary & (torch.rand(ids.shape, device=ids.device) < rate)
    if not chosen.any():
        chosen = ordinary
    dice = torch.rand(ids.shape, device=ids.device)
    noise = torch.randint(len(SPECIAL_TOKENS), vocab_size, ids.shape, device=ids.device)
    corrupted = torch.where(chosen & (dice < 0.8), torch.full_like(ids, MASK), ids)
    corrupted = torch.where(chosen & (dice >= 0.9), noise, corrupted)
    return corrupted, chosen


def train_masked_lm(
    ids: list[list[int]], config: BertConfig, recipe: Recipe, device: torch.device
) -> BertForMaskedLM:
    """Train the encoder from scratch to fill masks; the head runs on the masked places only."""
    torch.manual_seed(recipe.seed)
    rng = random.Random(recipe.seed)
    model = BertForMaskedLM(config).to(device).train()
    per_epoch = math.ceil(len(ids) / recipe.batch_size)
    trainer = Trainer(
        "masked lm",
        list(model.parameters()),
        recipe.mlm_rate,
        per_epoch * recipe.mlm_epochs,
        recipe,
    )
    for _ in range(recipe.mlm_epochs):
        for rows in batches(ids, recipe.batch_size, rng):
            tokens, attention = pad([ids[row] for row in rows], device)
            corrupted, chosen = mask_tokens(tokens, recipe.mlm_masked, config.vocab_size)
            states = model.bert(input_ids=corrupted, attention_mask=attention).last_hidden_state
            trainer.step(F.cross_entropy(model.cls(states[chosen]), tokens[chosen]))
    return model.eval()


# --- distillation ----------------------------------------------------------------------------


def alter(words: list[str], rng: random.Random) -> list[str]:
    """One altered copy of a sentence: words masked, words dropped, or a part cut out.

    The masks also make the classifier at home with the half-erased texts that explanations
    put to it.
    """
    kind = rng.random()
    rate = rng.uniform(0.1, 0.5)
    if kind < 0.4:
        return ["[MASK]" if rng.random() < rate else word for word in words]
    if kind < 0.7:
        return [word for word in words if rng.random() >= rate] or words
    length = rng.randint(max(1, len(words) // 3), len(words))
    start = rng.randint(0, len(words) - length)
    return words[start : start + length]


def altered_texts(texts: Sequence[str], recipe: Recipe) -> list[str]:
    """Altered copies, ``altered_copies`` times as many as ``texts`` less the repeats.

    Most training rows are short phrases, most texts met in use are whole sentences; joining some
    copies to another phrase before they are altered shows the student longer texts.
    """
    rng = random.Random(recipe.seed + 1)
    seen = set(texts)
    made = []
    for _ in range(recipe.altered_copies):
        for first in texts:
            words = first.split()
            if rng.random() < recipe.joined:
                words += [rng.choice([",", "and", "but", "."]), *rng.choice(texts).split()]
            text = " ".join(alter(words, rng))
            if text not in seen:
                seen.add(text)
                made.append(text)
    return made


def label_with_teacher(
    folder: Path, texts: Sequence[str], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Teacher logits and the mean of its last token vectors, for every text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    teacher = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    teacher.to(device).eval()
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    logits = torch.empty(len(texts), len(LABELS))
    states = torch.empty(len(texts), teacher.config.hidden_size)
    started = time.monotonic()
    chunks = [order[at : at + 64] for at in range(0, len(order), 64)]
    for done, rows in enumerate(chunks, start=1):
        coded = tokenizer(
            [texts[row] for row in rows],
            padding="longest",
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        ).to(device)
        with torch.inference_mode():
            out = teacher(**coded, output_hidden_states=True)
        weight = coded["attention_mask"].unsqueeze(-1).float()
        logits[rows] = out.logits.cpu()
        states[rows] = ((out.hidden_states[-1] * weight).sum(1) / weight.sum(1)).cpu()
        report("teacher", done, len(chunks), started)
    return logits, states


def make_targets(
    tokenizer: Tokenizer, train: Sentences, teacher: Path, recipe: Recipe, device: torch.device
) -> Targets:
    """The training sentences with their labels, and altered copies with the teacher's word only."""
    extra = altered_texts(train.texts, recipe)
    texts = [*train.texts, *extra]
    logits, states = label_with_teacher(teacher, texts, device)
    labels = torch.tensor(train.labels + [-1] * len(extra))
    return Targets(encode(tokenizer, texts), logits, states, labels)


def distill_loss(
    logits: Tensor, states: Tensor, aim: tuple[Tensor, Tensor, Tensor], recipe: Recipe
) -> Tensor:
    """Squared error on the logits, cosine distance of the text vectors, and the hard labels."""
    teacher_logits, teacher_states, labels = aim
    loss = F.mse_loss(logits, teacher_logits)
    loss = loss + recipe.state_weight * (1 - F.cosine_similarity(states, teacher_states)).mean()
    labelled = labels >= 0
    if labelled.any():
        hard = F.cross_entropy(logits[labelled], labels[labelled], reduction="sum")
        loss = loss + recipe.hard_weight * hard / len(labels)
    return loss


def train_classifier(
    base: BertForMaskedLM, targets: Targets, recipe: Recipe, device: torch.device
) -> BertForSequenceClassification:
    """Fine-tune a copy of the base encoder on the teacher's outputs."""
    torch.manual_seed(recipe.seed + 2)
    rng = random.Random(recipe.seed + 2)
    model = BertForSequenceClassification(classifier_config(recipe)).to(device).train()
    missing = model.bert.load_state_dict(base.bert.state_dict(), strict=False).missing_keys
    assert all(key.startswith("pooler.") for key in missing), missing
    bridge = nn.Linear(recipe.hidden_size, targets.states.shape[1]).to(device)
    per_epoch = math.ceil(len(targets.ids) / recipe.batch_size)
    parameters = [*model.parameters(), *bridge.parameters()]
    trainer = Trainer("classifier", parameters, recipe.rate, per_epoch * recipe.epochs, recipe)
    teacher_states = targets.states - targets.states.mean(0)
    for _ in range(recipe.epochs):
        for rows in batches(targets.ids, recipe.batch_size, rng):
            tokens, attention = pad([targets.ids[row] for row in rows], device)
            out = model.bert(input_ids=tokens, attention_mask=attention)
            logits = model.classifier(model.dropout(out.pooler_output))
            weight = attention.unsqueeze(-1).float()
            states = bridge((out.last_hidden_state * weight).sum(1) / weight.sum(1))
            aim = (targets.logits[rows], teacher_states[rows], targets.labels[rows])
            aim = tuple(part.to(device) for part in aim)
            trainer.step(distill_loss(logits, states, aim, recipe))
    return model.eval()


# --- configurations and evaluation -----------------------------------------------------------


def base_config(recipe: Recipe) -> BertConfig:
    """Shape of the encoder."""
    return BertConfig(
        vocab_size=recipe.vocab_size,
        hidden_size=recipe.hidden_size,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.intermediate_size,
        max_position_embeddings=recipe.positions,
        pad_token_id=PAD,
    )


def classifier_config(recipe: Recipe) -> BertConfig:
    """The same shape, with the class names."""
    config = base_config(recipe)
    config.id2label = dict(enumerate(LABELS))
    config.label2id = {label: number for number, label in enumerate(LABELS)}
    return config


def predict(model: BertForSequenceClassification, ids: list[list[int]]) -> Tensor:
    """Class probabilities of every row."""
    parts = []
    for start in range(0, len(ids), 64):
        tokens, attention = pad(ids[start : start + 64], model.device)
        with torch.inference_mode():
            logits = model(input_ids=tokens, attention_mask=attention).logits
        parts.append(logits.softmax(-1).cpu())
    return torch.cat(parts)


def wilson(right: int, total: int) -> tuple[float, float]:
    """95% Wilson score interval of a proportion."""
    z, share = 1.959963984540054, right / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    half /= 1 + z * z / total
    return middle - half, middle + half


def share_line(right: int, total: int) -> str:
    """A proportion with its counts and interval, for cards and the terminal."""
    low, high = wilson(right, total)
    return f"{right / total:.4f} ({right} of {total}; 95% Wilson interval {low:.4f} to {high:.4f})"


def measure_classifier(folder: Path, data: Path) -> dict[str, str]:
    """Accuracy and confidence of the saved classifier, loaded as a user would load it."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    found = {}
    for name in ("dev.tsv", "test_labelled.tsv"):
        rows = read_rows(data / name)
        scores, guesses = predict(model, encode(tokenizer, rows.texts)).max(-1)
        right = int((guesses == torch.tensor(rows.labels)).sum())
        line = share_line(right, len(rows.texts))
        found[name] = f"{line}, mean confidence {scores.mean().item():.3f}"
    return found


def measure_masked_lm(folder: Path, data: Path) -> dict[str, str]:
    """How often a dev token, masked alone, is the first guess or among the first ten."""
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    first = ten = total = 0
    for row in encode(tokenizer, read_rows(data / "dev.tsv").texts):
        tokens = torch.tensor(row)
        places = torch.arange(1, len(row) - 1)
        masked = tokens.repeat(len(places), 1)
        masked[torch.arange(len(places)), places] = MASK
        with torch.inference_mode():
            states = model.bert(input_ids=masked).last_hidden_state
            scores = model.cls(states[torch.arange(len(places)), places])
        hits = scores.topk(10).indices == tokens[places].unsqueeze(1)
        first += int(hits[:, 0].sum())
        ten += int(hits.any(1).sum())
        total += len(places)
    return {"first guess": share_line(first, total), "first ten": share_line(ten, total)}


def fill(folder: Path, text: str, count: int = 8) -> list[str]:
    """The likeliest words for the one [MASK] of ``text``."""
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    coded = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        scores = model(**coded).logits[0]
    place = int((coded["input_ids"][0] == MASK).nonzero())
    return tokenizer.convert_ids_to_tokens(scores[place].topk(count).indices.tolist())


# --- model cards -----------------------------------------------------------------------------


FILL_EXAMPLES = ("a truly [MASK] film", "[MASK] film is a mess .", "the acting is [MASK] .")

LIMITS = """\
- Short English movie-review sentences and phrases of the early 2000s; other domains, dialects and
  languages are outside what it has seen. Text is lowercased, accents are stripped.
- The training sentences are mostly under 30 words. There are {positions} positions, but texts of
  more than about 50 tokens are longer than almost all of the training data.
- Names of people, films and groups can carry sentiment learnt from few reviews. Do not use the
  model to make decisions about people.
- It is small, made to be explained and to test explanations; larger models are more accurate."""

HEAD = """\
---
license: apache-2.0
language: en
pipeline_tag: {task}
---

# {name}
"""


def versions_line() -> str:
    """The libraries that decide the bytes."""
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"Python {python}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"tokenizers {tokenizers.__version__}, safetensors {safetensors.__version__}"
    )


def shape_line(recipe: Recipe, parameters: int) -> str:
    """The architecture in one sentence."""
    return (
        f"BERT with {recipe.layers} layers, {recipe.heads} heads, width {recipe.hidden_size} "
        f"(feed-forward {recipe.intermediate_size}), {recipe.positions} positions and a lowercase "
        f"WordPiece vocabulary of {recipe.vocab_size}; {parameters:,} parameters in float32."
    )


def base_card(recipe: Recipe, rows: int, parameters: int, folder: Path, data: Path) -> str:
    """Model card of ``reviews-base``."""
    found = measure_masked_lm(folder, data)
    fills = "\n".join(f"- `{text}`: {', '.join(fill(folder, text))}" for text in FILL_EXAMPLES)
    return f"""{HEAD.format(name="reviews-base", task="fill-mask")}
A masked language model of movie-review sentences: the encoder of `reviews` before it was
fine-tuned, so that the two can be compared.

{shape_line(recipe, parameters)}

## Training

- Data: the {rows:,} training sentences and phrases of SST-2 (GLUE), without their labels. The
  vocabulary comes from the same rows. The dev and test rows were not used.
- From scratch: {recipe.mlm_epochs} epochs, batches of {recipe.batch_size}, AdamW, peak rate
  {recipe.mlm_rate:g} with {recipe.warmup:.0%} warm-up and linear decay, weight decay
  {recipe.weight_decay:g}; {recipe.mlm_masked:.0%} of the tokens chosen, of which 80% became
  `[MASK]`, 10% a random token and 10% stayed. Seed {recipe.seed}, one CPU thread.
- Made by `scripts/train_builtin.py` with {versions_line()}.

## Measured

Every token of the SST-2 dev sentences masked alone, the rest visible:

- first guess right: {found["first guess"]}
- right among the first ten: {found["first ten"]}

The tokens of one sentence are not independent, so the intervals are somewhat too narrow.

Likeliest fills:

{fills}

## Limits

{LIMITS.format(positions=recipe.positions)}

Licence of the weights: Apache-2.0.
"""


def classifier_card(
    recipe: Recipe, rows: int, copies: int, parameters: int, folder: Path, data: Path
) -> str:
    """Model card of ``reviews``."""
    found = measure_classifier(folder, data)
    return f"""{HEAD.format(name="reviews", task="text-classification")}
Sentiment of movie-review sentences: `negative` (0) or `positive` (1).

{shape_line(recipe, parameters)}

## Training

- Data: the {rows:,} labelled training sentences and phrases of SST-2 (GLUE). Nothing was trained
  on the dev or test rows. The few choices of the recipe were compared on the dev rows, so the dev
  figure is slightly flattering; the test rows were only measured.
- Start: the encoder of `reviews-base`, with a new pooler and classifier.
- Teacher: a 6-layer MiniLM fine-tuned on the same training rows (dev accuracy 0.901). It labelled
  the training rows and {copies:,} altered copies: {recipe.joined:.0%} were first joined to another
  phrase, then words were masked (40%), words dropped (30%) or a part cut out (30%).
- Loss: squared error of the logits against the teacher's, plus {recipe.state_weight:g} times the
  cosine distance of the projected mean token vector to the teacher's (centred; the projection is
  thrown away), plus {recipe.hard_weight:g} times the cross-entropy of the labels on training rows.
- {recipe.epochs} epochs over rows and copies together, batches of {recipe.batch_size}, AdamW,
  peak rate {recipe.rate:g} with {recipe.warmup:.0%} warm-up and linear decay, weight decay
  {recipe.weight_decay:g}; the last weights are kept. Seed {recipe.seed}, one CPU thread.
- Made by `scripts/train_builtin.py` with {versions_line()}.

## Measured

- SST-2 dev accuracy: {found["dev.tsv"]}
- SST-2 test accuracy: {found["test_labelled.tsv"]}

## Limits

{LIMITS.format(positions=recipe.positions)}
- The logits copy a teacher's and were not calibrated: compare the mean confidence (the probability
  given to the predicted class) with the accuracy above.

Licence of the weights: Apache-2.0.
"""


# --- command line ----------------------------------------------------------------------------


def count_parameters(model: nn.Module) -> int:
    """Number of weights, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def folder_size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())


def build(data: Path, teacher: Path, out: Path, recipe: Recipe, device: torch.device) -> None:
    """Train both models and write their folders."""
    train = read_rows(data / "train.tsv")
    tokenizer = train_tokenizer(train.texts, recipe.vocab_size)
    assert tokenizer.get_vocab_size() == recipe.vocab_size, "too little text for the vocabulary"

    folder = out / "reviews-base"
    base = train_masked_lm(encode(tokenizer, train.texts), base_config(recipe), recipe, device)
    base.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, recipe.positions)
    card = base_card(recipe, len(train.texts), count_parameters(base), folder, data)
    (folder / "README.md").write_text(card, encoding="utf-8")

    folder = out / "reviews"
    targets = make_targets(tokenizer, train, teacher, recipe, device)
    model = train_classifier(base, targets, recipe, device)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, recipe.positions)
    copies = len(targets.ids) - len(train.texts)
    card = classifier_card(recipe, len(train.texts), copies, count_parameters(model), folder, data)
    (folder / "README.md").write_text(card, encoding="utf-8")


def check(data: Path, out: Path) -> None:
    """Measure the folders that are there and print what was found."""
    for name, value in measure_classifier(out / "reviews", data).items():
        print(f"reviews       {name}: {value}")
    for name, value in measure_masked_lm(out / "reviews-base", data).items():
        print(f"reviews-base  {name}: {value}")
    for text in FILL_EXAMPLES:
        print(f"reviews-base  {text}: {', '.join(fill(out / 'reviews-base', text))}")
    for name in ("reviews", "reviews-base"):
        print(f"{name:<13} {folder_size(out / name):,} bytes")


def parse_arguments() -> argparse.Namespace:
    """Command-line options; relative defaults start at the repository root."""
    shared = ROOT.parent / "shared"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=shared / "data" / "sst2_glue")
    parser.add_argument("--teacher", type=Path, default=shared / "models" / "minilm-sst2")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "whence" / "models" / "builtin")
    parser.add_argument("--device", default="cpu", help="the shipped weights were made on cpu")
    parser.add_argument("--check", action="store_true", help="only measure the folders")
    return parser.parse_args()


def main() -> None:
    """Train or check, on one thread."""
    options = parse_arguments()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.disable_progress_bar()
    if not options.check:
        started = time.process_time()
        build(options.data, options.teacher, options.out, Recipe(), torch.device(options.device))
        print(f"{(time.process_time() - started) / 60:.1f} minutes of CPU time", file=sys.stderr)
    check(options.data, options.out)


if __name__ == "__main__":
    main()
