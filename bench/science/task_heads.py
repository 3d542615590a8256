"""Training of small NLI and question answering heads for bench.science.tasks, and SQuAD's answer scores.

Fitted on data that lies beside the repository, from a pre-trained encoder without a head. They are made to have
something to explain, not to be good at the task.
"""

import gzip
import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from whence.core.seed import build_generator

LABELS = ("entailment", "neutral", "contradiction")
LONGEST = 384  # tokens of a question with its context


def load_rows(path: Path) -> list[dict[str, Any]]:
    """Read a compressed file of one object a line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def split_by_article(given: Sequence[dict[str, Any]], tested: int) -> tuple[list[Any], list[Any]]:
    """Divide questions so that no article is in both parts; `tested` articles are held back."""
    titles = sorted({row["title"] for row in given})
    order = build_generator("articles").permutation(len(titles))
    held = {titles[i] for i in order[:tested]}
    return [r for r in given if r["title"] not in held], [r for r in given if r["title"] in held]


def fit_nli_head(base: Path, given: Sequence[dict[str, Any]], device: str, epochs: int) -> Any:
    """Fit a classifier of pairs of sentences."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    model = _load_model(
        transformers.AutoModelForSequenceClassification, base, device, num_labels=3,
        id2label=dict(enumerate(LABELS)), label2id={n: i for i, n in enumerate(LABELS)},
    )  # fmt: skip

    def build_batch(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
        pairs = [r["premise"] for r in some], [r["hypothesis"] for r in some]
        encoded = tokenizer(
            *pairs, padding=True, truncation=True, max_length=128, return_tensors="pt"
        )
        return {**encoded, "labels": torch.tensor([LABELS.index(r["label"]) for r in some])}

    fit_model(model, given, build_batch, epochs=epochs, rate=1e-4)
    return model, tokenizer


def fit_answer_head(
    base: Path, given: Sequence[dict[str, Any]], device: str, epochs: int, encoder: Any = None
) -> Any:
    """Fit a head that points at answers; `encoder` is one that a head was fitted on before."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    model = _load_model(transformers.AutoModelForQuestionAnswering, base, device)
    if encoder is not None:
        model.bert.load_state_dict(encoder.bert.state_dict(), strict=False)

    def build_batch(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
        pairs = [r["question"] for r in some], [r["context"] for r in some]
        cut = {"truncation": "only_second", "max_length": LONGEST}
        encoded = tokenizer(*pairs, padding=True, return_tensors="pt", **cut)
        places = [_locate_answer(encoded, i, row["answers"][0]) for i, row in enumerate(some)]
        starts, ends = (torch.tensor(side) for side in zip(*places, strict=True))
        return {**encoded, "start_positions": starts, "end_positions": ends}

    fit_model(model, given, build_batch, epochs=epochs, rate=1e-4)
    return model, tokenizer


def _locate_answer(encoded: Any, row: int, answer: dict[str, Any]) -> tuple[int, int]:
    """Return the tokens of an answer; the classification token where it was cut off."""
    start = answer["answer_start"]
    first = encoded.char_to_token(row, start, 1)
    last = encoded.char_to_token(row, start + len(answer["text"]) - 1, 1)
    return (0, 0) if first is None or last is None else (first, last)


def _load_model(kind: Any, base: Path, device: str, **more: Any) -> Any:
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    return kind.from_pretrained(base, dtype=torch.float32, **more).to(device)


def fit_model(
    model: Any,
    given: Sequence[Any],
    batch: Callable[[Sequence[Any]], dict[str, Tensor]],
    *,
    epochs: int,
    rate: float,
    size: int = 32,
) -> None:
    """Fit by AdamW, the rate rising over a tenth of the steps and then falling to zero."""
    steps = epochs * ((len(given) + size - 1) // size)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    model.train()
    for epoch in range(epochs):
        for chosen in _iterate_chunks(
            build_generator("epoch", epoch).permutation(len(given)), size
        ):
            inputs = batch([given[i] for i in chosen])
            loss = model(**{name: value.to(model.device) for name, value in inputs.items()}).loss
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    model.eval()


def _iterate_chunks(order: Any, size: int) -> Iterator[list[int]]:
    for first in range(0, len(order), size):
        yield [int(i) for i in order[first : first + size]]


def compute_exact_match(said: str, gold: str) -> float:
    """Return whether an answer is the gold one, as SQuAD counts it."""
    return float(_normalise_answer(said) == _normalise_answer(gold))


def compute_overlap(said: str, gold: str) -> float:
    """Return the F1 of an answer's words, as SQuAD counts it."""
    one, other = _normalise_answer(said).split(), _normalise_answer(gold).split()
    same = sum((Counter(one) & Counter(other)).values())
    return 2 * same / (len(one) + len(other)) if same else 0.0


def _normalise_answer(text: str) -> str:
    kept = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())
