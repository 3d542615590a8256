"""Checks that judge each library by its rows: completeness, agreement, sign, batch, pairs, model unchanged.

Every check takes the rows of one library and says yes, no, or that it does not apply, with the number behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

COMPLETE = 0.01  # of |f(x) - f(baseline)|, at 64 steps, on the worst text: less than a reader sees in two digits
AGREES = (
    0.99  # Pearson's r with the reference, on the worst text: the same method, but for rounding
)
TOP = 3  # words of each text whose sign is compared
SIGN = 0.75  # of the top words; tossed coins reach that for 24 words once in a hundred times
SAME = 1e-4  # of the largest score: a thousand roundings of float32


@dataclass(frozen=True)
class Verdict:
    """Answer of a check for one library, with the number behind it."""

    answer: str  # yes, no, or - where it does not apply
    detail: str

    def __str__(self) -> str:
        if self.answer == "-":
            return "–" if self.detail == "not asked" else f"– ({self.detail})"
        return f"{self.answer}: {self.detail}"


def select_rows(rows: Sequence[Row], check: str, **same: Any) -> list[Row]:
    """Return the rows of a check with these values."""
    return [
        row
        for row in rows
        if row["check"] == check and all(row.get(key) == value for key, value in same.items())
    ]


def _judge_unanswered(row: Row | None, absent: str = "-") -> Verdict | None:
    """Return the verdict on a row without numbers: an error is a no, a missing feature is `absent`."""
    if row is None:
        return Verdict("-", "not asked")
    if "error" in row:
        return Verdict("no", f"`{row['error']}`")
    if "absent" in row:
        return Verdict(absent, row["absent"])
    return None


def _select_row(rows: Sequence[Row], check: str, **same: Any) -> Row | None:
    found = select_rows(rows, check, **same)
    return found[0] if found else None


def compute_residuals(row: Row) -> list[float]:
    """Return |sum - rise| / |rise| for each text; a sum that is no number is infinitely far off."""
    return [
        abs(total - rise) / abs(rise) if math.isfinite(total) else math.inf
        for total, rise in row["sums"]
    ]


def check_completeness(rows: Sequence[Row]) -> Verdict:
    """The scores add up to what the model's output rose by from the baseline to the text.

    Of integrated gradients, at 64 steps: |sum of scores - (f(x) - f(baseline))| is at most 1% of |f(x) -
    f(baseline)| on every text, where f is what the library explains (a logit or a probability) and the baseline
    is its own. Shapley values promise the same and are held to it.
    """
    own, row = (
        _select_row(rows, "completeness", steps="own"),
        _select_row(rows, "completeness", steps=64),
    )
    if row is not None and "absent" in row:
        row = own
    if (said := _judge_unanswered(row)) is not None or row is None:
        return said or Verdict("-", "not asked")
    worst = max(compute_residuals(row))
    return Verdict("yes" if worst <= COMPLETE else "no", f"off by {format_percent(worst)}")


def format_percent(share: float) -> str:
    """Format a share with as many digits as matter."""
    if not math.isfinite(share):
        return "no number"
    return f"{share:.2%}" if share < 0.1 else f"{share:.0%}"


def compute_pearson(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Pearson's r, or not a number where one side is constant."""
    n = len(one)
    a, b = sum(one) / n, sum(other) / n
    both = sum((x - a) * (y - b) for x, y in zip(one, other, strict=True))
    sizes = sum((x - a) ** 2 for x in one) * sum((y - b) ** 2 for y in other)
    return both / math.sqrt(sizes) if sizes > 0 else math.nan


def check_agreement(rows: Sequence[Row]) -> Verdict:
    """The library's integrated gradients are integrated gradients.

    Pearson's r between its scores at 64 steps and a reference written out in float64, with the library's own
    baseline and output, is at least 0.99 on every text.
    """
    row = _select_row(rows, "agreement")
    if (said := _judge_unanswered(row)) is not None or row is None:
        return said or Verdict("-", "not asked")
    if any(len(one) != len(other) for one, other in row["pairs"]):
        return Verdict("-", "other tokens than the tokenizer's")
    worst = min(compute_pearson(one, other) for one, other in row["pairs"])
    return Verdict("yes" if worst >= AGREES else "no", f"r = {worst:.2f}")


def count_same_signs(row: Row) -> tuple[int, int]:
    """Count the top words that have leave-one-out's sign; return that and the number of top words."""
    equal = total = 0
    for scores, falls in row["pairs"]:
        top = sorted(range(len(falls)), key=lambda i: -abs(falls[i]))[:TOP]
        equal += sum(scores[i] * falls[i] > 0 for i in top)
        total += len(top)
    return equal, total


def check_sign(rows: Sequence[Row]) -> Verdict:
    """What speaks against a class has a negative score for it.

    The three words of each text whose removal changes the logit of "positive" most: the sign of the library's
    score is that of the change for at least 75% of them. The method is its integrated gradients, or what it has
    instead.
    """
    row = _select_row(rows, "sign")
    if (said := _judge_unanswered(row)) is not None or row is None:
        return said or Verdict("-", "not asked")
    equal, total = count_same_signs(row)
    if not total:
        return Verdict("-", "no words in common")
    return Verdict("yes" if equal >= SIGN * total else "no", f"{equal} of {total}")


def check_batch(rows: Sequence[Row]) -> Verdict:
    """A list gives what its texts give one by one.

    Three texts of different lengths, so that the short ones are padded: no score differs by more than 1e-4 of
    the largest. A library that takes no list does not fail; it is said.
    """
    found = select_rows(rows, "batch")
    numbers = [row for row in found if "off" in row]
    if not numbers:
        row = found[0] if found else None
        if row is not None and "error" in row:
            return Verdict("-", "takes no list")
        return _judge_unanswered(row) or Verdict("-", "not asked")
    broken = [row for row in found if "off" not in row]
    worst = max(row["off"] / row["size"] for row in numbers)
    detail = "equal" if worst <= SAME else f"off by {format_percent(worst)} of the largest score"
    if broken:
        detail += f"; {broken[0]['of']}: {broken[0].get('error') or broken[0].get('absent')}"
    return Verdict("yes" if worst <= SAME and not broken else "no", detail)


def check_repeated_words(rows: Sequence[Row]) -> Verdict:
    """A word that is there three times has three scores."""
    row = _select_row(rows, "repeated")
    if (said := _judge_unanswered(row)) is not None or row is None:
        return said or Verdict("-", "not asked")
    return Verdict(
        "yes" if row["scores"] == row["times"] else "no",
        f"{row['scores']} of {row['times']} scores",
    )


def check_pair(rows: Sequence[Row]) -> Verdict:
    """A pair of texts keeps its two sides.

    The scores are of the words of the first text and then of the second, each word by itself, and which is
    which is told, by a number or by the separator.
    """
    row = _select_row(rows, "pair")
    if (said := _judge_unanswered(row)) is not None or row is None:
        return said or Verdict("-", "not asked")
    first, second = (text.split() for text in row["texts"])
    marks = {"[CLS]", "[SEP]", "[PAD]", ""}
    tokens = [token.strip() for token in row["tokens"]]
    words = [token for token in tokens if token not in marks]
    if words != first + second:
        strange = next((word for word in words if word not in first + second), None)
        return Verdict(
            "no", f"scores a word `{strange}`" if strange else "words are lost or out of order"
        )
    told = row["segments"] is not None or "[SEP]" in tokens[1:-1]
    detail = "kept apart" if told else "sides are not told"
    more = f"; {row['remark']}" if row.get("remark") else ""
    return Verdict("yes" if told else "no", detail + more)


def check_left_as_found(rows: Sequence[Row]) -> Verdict:
    """The model is left as it was found.

    Parameters, buffers, hooks, kept gradients, requires_grad, training flags, attention implementation,
    configuration and the logits of a text, compared bit for bit: after explaining, after a failure inside the
    model, after a wrong target.
    """
    asked = select_rows(rows, "found")
    if not asked:
        return Verdict("-", "not asked")
    left = [f"{', '.join(row['changed'])} after {row['after']}" for row in asked if row["changed"]]
    return Verdict("no" if left else "yes", "; ".join(left) or "as found")


CHECKS: dict[str, Callable[[Sequence[Row]], Verdict]] = {
    "completeness": check_completeness,
    "agreement": check_agreement,
    "sign": check_sign,
    "batch equals single": check_batch,
    "repeated words": check_repeated_words,
    "pairs": check_pair,
    "left as found": check_left_as_found,
}


def judge_library(rows: Sequence[Row]) -> dict[str, Verdict]:
    """Return the verdict of every check for one library."""
    return {name: check(rows) for name, check in CHECKS.items()}
