"""Which words each class leans on, according to one method, over a data set."""

from collections import defaultdict
from typing import Any

from whence.core.errors import BadParameter, NotFinite
from whence.data.sets.examples import read
from whence.explainer import Explainer, Explanation
from whence.explainer.request import requests
from whence.explainer.work import Progress
from whence.stats import bootstrap
from whence.survey.intake import Group, Intake, places, require_words

_MOST = 50  # words of a class
_SHOWN = 5  # texts of a word

# By class and word: the number of each text, and the word's share in it.
Seen = dict[str, dict[str, dict[int, float]]]


def words(
    explainer: Explainer,
    examples: Any,
    *,
    method: str | None = None,
    limit: int | None = 100,
    least: int = 3,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Explain a sample of a data set, and return the words that count most where a class was predicted.

    A word's score in a text is its share of the sum of all words' |scores|, with its sign; a word that occurs
    again there adds up. Its score for a class is the mean over the texts that it stands in and for which the class
    was predicted, `least` of them at least. Words are lower-cased. Without a `method` it is the model's default.
    """
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise BadParameter(f"least must be a whole number of texts, at least 1. Got {least!r}.")
    explainer.loaded.require_labels()
    method = explainer.default_method() if method is None else method
    (request,) = requests(method, None, explainer.fillers)
    require_words(explainer)
    given = read(examples)
    intake = Intake(explainer, given.examples, places(given, limit, drawn=True), progress)
    seen: Seen = {label: defaultdict(dict) for label in explainer.labels}
    predicted = dict.fromkeys(explainer.labels, 0)
    even = 0.0
    for group in intake.groups():
        for number, why in _explained(explainer, group, method, intake):
            shares = _shares(why)
            if not shares:
                intake.refuse(number, "zero", f"{method} gives every word a score of 0.")
                continue
            predicted[why.prediction.label] += 1
            even += 1 / len(why.spans)
            for word, share in shares.items():
                seen[why.prediction.label][word][number] = share
    return {
        "kind": "leaning",
        "model": explainer.loaded.name,
        "data": given.name,
        "method": method,
        "signed": request.signed,
        "used": intake.used,
        "left_out": [*intake.drawn(), *intake.left_out()],
        "classes": [
            {
                "label": label,
                "predicted": predicted[label],
                "words": _strongest(seen[label], label, least),
            }
            for label in explainer.labels
        ],
        "note": _note(request.signed, least, even / max(intake.used, 1), explainer.loaded.task),
    }


def _explained(
    explainer: Explainer, group: Group, method: str, intake: Intake
) -> list[tuple[int, Explanation]]:
    """Explain a group; where that fails, one by one, to see which input it is."""
    try:
        found = explainer.explain(
            group.given, method=method, truncate=True, progress=group.progress
        )
        return list(zip(group.numbers, found, strict=True))
    except NotFinite:
        pass
    kept = []
    for number, text in zip(group.numbers, group.given, strict=True):
        try:
            kept.append((number, explainer.explain(text, method=method, truncate=True)))
        except NotFinite as error:
            intake.refuse(number, error.code, str(error))
    return kept


def _shares(why: Explanation) -> dict[str, float]:
    """Return each word's part of what all words weigh, nothing where no word weighs anything."""
    scores = [word.score for word in why.words()]
    total = sum(map(abs, scores))
    found: dict[str, float] = defaultdict(float)
    if total > 0:
        for word, score in zip(why.spans, scores, strict=True):
            found[word.text.lower()] += score / total
    return found


def _strongest(seen: dict[str, dict[int, float]], label: str, least: int) -> list[dict[str, Any]]:
    kept = {word: shares for word, shares in seen.items() if len(shares) >= least}
    order = sorted(kept, key=lambda word: (-abs(_mean(kept[word])), word))
    return [_leaning(word, kept[word], label) for word in order[:_MOST]]


def _leaning(word: str, shares: dict[int, float], label: str) -> dict[str, Any]:
    numbers = sorted(shares)
    score = bootstrap([shares[i] for i in numbers], ("leaning", label, word))
    telling = sorted(numbers, key=lambda i: (-abs(shares[i]), i))[:_SHOWN]
    return {
        "word": word,
        "score": {"mean": score.mean, "low": score.low, "high": score.high, "n": score.n},
        "examples": telling,
    }


def _mean(shares: dict[int, float]) -> float:
    return sum(shares.values()) / len(shares)


def _note(signed: bool, least: int, even: float, task: str) -> str:
    value = task == "regression"
    what, given = ("a higher value", "") if value else ("the class", "were given this class and ")
    sign = (
        f"above 0 it speaks for {what}, below 0 against it"
        if signed
        else f"the method gives no sign, so a word may speak for or against {what}"
    )
    return (
        f"A score is the word's share of all that the words of its text weigh, in the mean over the texts that "
        f"{given}have the word, at least {least}; {sign}. If all words weighed the same, each would "
        f"have {even:.3f}. Which words a method points at is what it says of the model, not yet what is true of it."
    )
