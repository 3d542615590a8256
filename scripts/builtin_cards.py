"""Measurements of the built-in review models (accuracy, masked tokens), and the text of their model cards."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import safetensors
import tokenizers
import torch
import transformers
from builtin_recipe import MASK, Recipe, read_rows
from builtin_tokenizer import encode, pad
from torch import Tensor, nn
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
)


def predict(model: BertForSequenceClassification, ids: list[list[int]]) -> Tensor:
    """Return class probabilities of every row."""
    parts = []
    for start in range(0, len(ids), 64):
        tokens, attention = pad(ids[start : start + 64], model.device)
        with torch.inference_mode():
            logits = model(input_ids=tokens, attention_mask=attention).logits
        parts.append(logits.softmax(-1).cpu())
    return torch.cat(parts)


def compute_wilson_interval(right: int, total: int) -> tuple[float, float]:
    """Return the 95% Wilson score interval of a proportion."""
    z, share = 1.959963984540054, right / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    half /= 1 + z * z / total
    return middle - half, middle + half


def format_share(right: int, total: int) -> str:
    """Format a proportion with its counts and interval, for cards and the terminal."""
    low, high = compute_wilson_interval(right, total)
    return f"{right / total:.4f} ({right} of {total}; 95% Wilson interval {low:.4f} to {high:.4f})"


def measure_classifier(folder: Path, data: Path) -> dict[str, str]:
    """Measure accuracy and confidence of the saved classifier, loaded as a user would load it."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    found = {}
    for name in ("dev.tsv", "test_labelled.tsv"):
        rows = read_rows(data / name)
        scores, guesses = predict(model, encode(tokenizer, rows.texts)).max(-1)
        right = int((guesses == torch.tensor(rows.labels)).sum())
        line = format_share(right, len(rows.texts))
        found[name] = f"{line}, mean confidence {scores.mean().item():.3f}"
    return found


def measure_masked_lm(folder: Path, data: Path) -> dict[str, str]:
    """Measure how often a dev token, masked alone, is the first guess or among the first ten."""
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
    return {"first guess": format_share(first, total), "first ten": format_share(ten, total)}


def fill_mask(folder: Path, text: str, count: int = 8) -> list[str]:
    """Return the likeliest words for the one [MASK] of ``text``."""
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    coded = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        scores = model(**coded).logits[0]
    place = int((coded["input_ids"][0] == MASK).nonzero())
    return tokenizer.convert_ids_to_tokens(scores[place].topk(count).indices.tolist())


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


def format_versions() -> str:
    """Format the versions of the libraries that decide the bytes."""
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"Python {python}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"tokenizers {tokenizers.__version__}, safetensors {safetensors.__version__}"
    )


def format_shape(recipe: Recipe, parameters: int) -> str:
    """Format the architecture in one sentence."""
    return (
        f"BERT with {recipe.layers} layers, {recipe.heads} heads, width {recipe.hidden_size} "
        f"(feed-forward {recipe.intermediate_size}), {recipe.positions} positions and a lowercase "
        f"WordPiece vocabulary of {recipe.vocab_size}; {parameters:,} parameters in float32."
    )


def render_base_card(recipe: Recipe, rows: int, parameters: int, folder: Path, data: Path) -> str:
    """Return the model card of ``reviews-base``."""
    found = measure_masked_lm(folder, data)
    fills = "\n".join(f"- `{text}`: {', '.join(fill_mask(folder, text))}" for text in FILL_EXAMPLES)
    return f"""{HEAD.format(name="reviews-base", task="fill-mask")}
A masked language model of movie-review sentences: the encoder of `reviews` before it was
fine-tuned, so that the two can be compared.

{format_shape(recipe, parameters)}

## Training

- Data: the {rows:,} training sentences and phrases of SST-2 (GLUE), without their labels. The
  vocabulary comes from the same rows. The dev and test rows were not used.
- From scratch: {recipe.mlm_epochs} epochs, batches of {recipe.batch_size}, AdamW, peak rate
  {recipe.mlm_rate:g} with {recipe.warmup:.0%} warm-up and linear decay, weight decay
  {recipe.weight_decay:g}; {recipe.mlm_masked:.0%} of the tokens chosen, of which 80% became
  `[MASK]`, 10% a random token and 10% stayed. Seed {recipe.seed}, one CPU thread.
- Made by `scripts/train_builtin.py` with {format_versions()}.

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


def render_classifier_card(
    recipe: Recipe, rows: int, copies: int, parameters: int, folder: Path, data: Path
) -> str:
    """Return the model card of ``reviews``."""
    found = measure_classifier(folder, data)
    return f"""{HEAD.format(name="reviews", task="text-classification")}
Sentiment of movie-review sentences: `negative` (0) or `positive` (1).

{format_shape(recipe, parameters)}

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
- Made by `scripts/train_builtin.py` with {format_versions()}.

## Measured

- SST-2 dev accuracy: {found["dev.tsv"]}
- SST-2 test accuracy: {found["test_labelled.tsv"]}

## Limits

{LIMITS.format(positions=recipe.positions)}
- The logits copy a teacher's and were not calibrated: compare the mean confidence (the probability
  given to the predicted class) with the accuracy above.

Licence of the weights: Apache-2.0.
"""


def count_parameters(model: nn.Module) -> int:
    """Return the number of weights, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def measure_folder(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())
