"""Training of the two built-in review models, ``reviews-base`` and ``reviews``, from SST-2.

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
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import transformers
from builtin_cards import (
    FILL_EXAMPLES,
    count_parameters,
    fill_mask,
    measure_classifier,
    measure_folder,
    measure_masked_lm,
    render_base_card,
    render_classifier_card,
)
from builtin_recipe import (
    LABELS,
    MASK,
    MAX_TOKENS,
    PAD,
    SPECIAL_TOKENS,
    Recipe,
    Sentences,
    Targets,
    read_rows,
)
from builtin_tokenizer import encode, pad, save_tokenizer, train_tokenizer
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
)

ROOT = Path(__file__).resolve().parents[1]


def draw_batches(ids: Sequence[Sequence[int]], size: int, rng: random.Random) -> list[list[int]]:
    """Draw random batches of row numbers; rows of like length share a batch, to save padding."""
    order = list(range(len(ids)))
    rng.shuffle(order)
    pool = size * 50
    made: list[list[int]] = []
    for start in range(0, len(order), pool):
        part = sorted(order[start : start + pool], key=lambda row: len(ids[row]))
        made += [part[at : at + size] for at in range(0, len(part), size)]
    rng.shuffle(made)
    return made


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
    """Print progress to standard error: one line rewritten on a terminal, sparse lines elsewhere."""
    seconds = time.monotonic() - started
    line = f"{name}: {done}/{total}  {seconds:.0f} s  {note}"
    if sys.stderr.isatty():
        print(f"\r{line:<78}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or done % 1000 == 0:
        print(line, file=sys.stderr, flush=True)


# --- masked language model -------------------------------------------------------------------


def mask_tokens(ids: Tensor, rate: float, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Corrupt tokens as BERT does: of the chosen ones 80% become [MASK], 10% random, 10% stay.

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
        for rows in draw_batches(ids, recipe.batch_size, rng):
            tokens, attention = pad([ids[row] for row in rows], device)
            corrupted, chosen = mask_tokens(tokens, recipe.mlm_masked, config.vocab_size)
            states = model.bert(input_ids=corrupted, attention_mask=attention).last_hidden_state
            trainer.step(F.cross_entropy(model.cls(states[chosen]), tokens[chosen]))
    return model.eval()


# --- distillation ----------------------------------------------------------------------------


def alter(words: list[str], rng: random.Random) -> list[str]:
    """Return one altered copy of a sentence: words masked, words dropped, or a part cut out.

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


def alter_texts(texts: Sequence[str], recipe: Recipe) -> list[str]:
    """Return altered copies, ``altered_copies`` times as many as ``texts`` less the repeats.

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
    """Return teacher logits and the mean of its last token vectors, for every text."""
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
    """Return the training sentences with their labels, and altered copies labelled by the teacher only."""
    extra = alter_texts(train.texts, recipe)
    texts = [*train.texts, *extra]
    logits, states = label_with_teacher(teacher, texts, device)
    labels = torch.tensor(train.labels + [-1] * len(extra))
    return Targets(encode(tokenizer, texts), logits, states, labels)


def compute_distill_loss(
    logits: Tensor, states: Tensor, aim: tuple[Tensor, Tensor, Tensor], recipe: Recipe
) -> Tensor:
    """Return squared error on the logits, cosine distance of the text vectors, and the hard labels."""
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
    model = BertForSequenceClassification(build_classifier_config(recipe)).to(device).train()
    missing = model.bert.load_state_dict(base.bert.state_dict(), strict=False).missing_keys
    assert all(key.startswith("pooler.") for key in missing), missing
    bridge = nn.Linear(recipe.hidden_size, targets.states.shape[1]).to(device)
    per_epoch = math.ceil(len(targets.ids) / recipe.batch_size)
    parameters = [*model.parameters(), *bridge.parameters()]
    trainer = Trainer("classifier", parameters, recipe.rate, per_epoch * recipe.epochs, recipe)
    teacher_states = targets.states - targets.states.mean(0)
    for _ in range(recipe.epochs):
        for rows in draw_batches(targets.ids, recipe.batch_size, rng):
            tokens, attention = pad([targets.ids[row] for row in rows], device)
            out = model.bert(input_ids=tokens, attention_mask=attention)
            logits = model.classifier(model.dropout(out.pooler_output))
            weight = attention.unsqueeze(-1).float()
            states = bridge((out.last_hidden_state * weight).sum(1) / weight.sum(1))
            aim = (targets.logits[rows], teacher_states[rows], targets.labels[rows])
            aim = tuple(part.to(device) for part in aim)
            trainer.step(compute_distill_loss(logits, states, aim, recipe))
    return model.eval()


# --- configurations and evaluation -----------------------------------------------------------


def build_base_config(recipe: Recipe) -> BertConfig:
    """Return the shape of the encoder."""
    return BertConfig(
        vocab_size=recipe.vocab_size,
        hidden_size=recipe.hidden_size,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.intermediate_size,
        max_position_embeddings=recipe.positions,
        pad_token_id=PAD,
    )


def build_classifier_config(recipe: Recipe) -> BertConfig:
    """Return the same shape, with the class names."""
    config = build_base_config(recipe)
    config.id2label = dict(enumerate(LABELS))
    config.label2id = {label: number for number, label in enumerate(LABELS)}
    return config


def build(data: Path, teacher: Path, out: Path, recipe: Recipe, device: torch.device) -> None:
    """Train both models and write their folders."""
    train = read_rows(data / "train.tsv")
    tokenizer = train_tokenizer(train.texts, recipe.vocab_size)
    assert tokenizer.get_vocab_size() == recipe.vocab_size, "too little text for the vocabulary"

    folder = out / "reviews-base"
    base = train_masked_lm(
        encode(tokenizer, train.texts), build_base_config(recipe), recipe, device
    )
    base.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, recipe.positions)
    card = render_base_card(recipe, len(train.texts), count_parameters(base), folder, data)
    (folder / "README.md").write_text(card, encoding="utf-8")

    folder = out / "reviews"
    targets = make_targets(tokenizer, train, teacher, recipe, device)
    model = train_classifier(base, targets, recipe, device)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, recipe.positions)
    copies = len(targets.ids) - len(train.texts)
    card = render_classifier_card(
        recipe, len(train.texts), copies, count_parameters(model), folder, data
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def check(data: Path, out: Path) -> None:
    """Measure the stored folders and print the results."""
    for name, value in measure_classifier(out / "reviews", data).items():
        print(f"reviews       {name}: {value}")
    for name, value in measure_masked_lm(out / "reviews-base", data).items():
        print(f"reviews-base  {name}: {value}")
    for text in FILL_EXAMPLES:
        print(f"reviews-base  {text}: {', '.join(fill_mask(out / 'reviews-base', text))}")
    for name in ("reviews", "reviews-base"):
        print(f"{name:<13} {measure_folder(out / name):,} bytes")


def parse_arguments() -> argparse.Namespace:
    """Parse command-line options; relative defaults start at the repository root."""
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
