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


"""What a model does over a data set: its predictions, the words its classes lean on, the habits of its heads."""

from whence.survey.habits import habits
from whence.survey.predictions import predictions
from whence.survey.words import words

__all__ = ["habits", "predictions", "words"]


"""What every head attends to, over a data set: by kind of place, how widely, and which tokens."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import NotFinite
from whence.data.sets.examples import read
from whence.explainer import Explainer
from whence.explainer.inside.inside import Inside
from whence.explainer.work import Progress
from whence.flow import KINDS, entropy, open_keys
from whence.flow import habits as sorted_by_kind
from whence.stats import Interval
from whence.stats.together import bootstraps
from whence.survey.intake import Intake, places, require_words

Array = NDArray[np.float64]

_TOKENS = 5  # of a head
_PLURAL = {
    "special": "special tokens",
    "itself": "the token itself",
    "previous": "the token before",
    "next": "the token after",
    "same word": "the same word",
    "punctuation": "punctuation",
    "other": "other tokens",
}


def habits(
    explainer: Explainer,
    examples: Any,
    *,
    limit: int | None = 100,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Look at the attention of every head on a sample of a data set, and say what it usually goes to.

    A share is the mean over the texts of a head's attention to such places, in the mean over its rows. Entropy is
    that of the rows, as a share of the largest possible. The tokens are those that get most, wherever they stand.
    """
    require_words(explainer)
    given = read(examples)
    intake = Intake(explainer, given.examples, places(given, limit, drawn=True), progress)
    seen: list[tuple[int, Array]] = []  # a text's number; (figures, layers, heads)
    even: list[Array] = []  # (kinds, layers)
    received: dict[str, Array] = defaultdict(lambda: np.zeros(1))
    for group in intake.groups():
        for place, (number, text) in enumerate(zip(group.numbers, group.given, strict=True)):
            try:
                inside = explainer.inside(text, truncate=True)
                figures, evenly = _figures(inside, received)
            except NotFinite as error:
                intake.refuse(number, error.code, str(error))
                continue
            seen.append((number, figures))
            even.append(evenly)
            group.progress(place + 1, len(group.numbers))
    return {
        "kind": "habits",
        "model": explainer.loaded.name,
        "data": given.name,
        "used": len(seen),
        "left_out": [*intake.drawn(), *intake.left_out()],
        "heads": _heads(seen, even, received) if seen else [],
        "kinds": dict(KINDS),
    }


def _figures(inside: Inside, received: dict[str, Array]) -> tuple[Array, Array]:
    """Return one text's shares by kind, then its entropy, (figures, layers, heads), and what even attention gives.

    The latter is (kinds, layers): layers may differ in what a row can attend to.
    """
    maps = inside.attention()
    found = sorted_by_kind(maps, inside.tokens, inside.words)
    for token, share in zip(inside.tokens, np.moveaxis(found.received, -1, 0), strict=True):
        shown = token.text if token.special else token.text.lower()
        received[shown] = received[shown] + share
    evenly = sorted_by_kind(_flat(maps), inside.tokens, inside.words).shares
    return (
        np.stack([*(found.shares[kind] for kind in KINDS), entropy(maps)]),
        np.stack([evenly[kind][:, 0] for kind in KINDS]),
    )


def _flat(maps: NDArray[np.floating[Any]]) -> Array:
    """Return attention spread evenly over what a row may attend to, (layers, 1, tokens, tokens).

    A row of a causal model sees what stands before it alone: that it attends there is no preference.
    """
    seen = np.stack([open_keys(layer) for layer in maps]).astype(np.float64)
    flat: Array = (seen / np.maximum(seen.sum(axis=-1, keepdims=True), 1))[:, None]
    return flat


def _heads(
    seen: Sequence[tuple[int, Array]], even: Sequence[Array], received: Mapping[str, Array]
) -> list[dict[str, Any]]:
    # The order of the batches must not reach the draws.
    order = sorted(range(len(seen)), key=lambda i: seen[i][0])
    columns = np.stack([seen[i][1] for i in order])
    n, figures, layers, heads = columns.shape
    intervals = np.array(bootstraps(columns.reshape(n, -1), ("habits",)), dtype=object)
    by_head = intervals.reshape(figures, layers, heads)
    evenly = np.mean(even, axis=0)
    return [
        _habit(
            layer,
            head,
            by_head[:, layer, head].tolist(),
            _favourites(received, layer, head, n),
            dict(zip(KINDS, evenly[:, layer].tolist(), strict=True)),
        )
        for layer in range(layers)
        for head in range(heads)
    ]


def _habit(
    layer: int,
    head: int,
    found: Sequence[Interval],
    tokens: list[tuple[str, float]],
    even: Mapping[str, float],
) -> dict[str, Any]:
    shares = dict(zip(KINDS, found, strict=False))
    # What sets it apart is not where most goes, but where more goes than evenly spread attention would give.
    most = max(shares, key=lambda kind: shares[kind].mean - even[kind])
    return {
        "layer": layer,
        "head": head,
        "shares": {kind: _written(one) for kind, one in shares.items()},
        "entropy": _written(found[-1]),
        "tokens": tokens,
        "words": f"gives {shares[most].mean:.0%} of its attention to {_PLURAL[most]}; spread evenly it would be "
        f"{even[most]:.0%}",
    }


def _favourites(
    received: Mapping[str, Array], layer: int, head: int, n: int
) -> list[tuple[str, float]]:
    means = {token: float(total[layer, head]) / n for token, total in received.items()}
    return sorted(means.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOKENS]


def _written(one: Interval) -> dict[str, Any]:
    return {"mean": one.mean, "low": one.low, "high": one.high, "n": one.n}


"""From a data set to the inputs that a model can take, a few at a time; what it cannot take is counted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.core.errors import BadExamples, BadParameter, BadPicture, InputError, WhenceError
from whence.data import Encoded
from whence.data.sets.examples import Example, Read, shuffled
from whence.explainer import Explainer
from whence.explainer.aims.each import Failed
from whence.explainer.verify.testing import taken
from whence.explainer.work import Progress

_AT_ONCE = 64  # inputs between two looks at whether anybody wants to go on
_NAMED = 5


def places(given: Read, limit: int | None, *, drawn: bool) -> list[int]:
    """Return the numbers of the rows to take: the first so many, or so many that are drawn, in their order."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1, or None. Got {limit!r}.")
    order = shuffled(given.examples) if drawn else range(len(given))
    return sorted(order[:limit])


def require_words(explainer: Explainer) -> None:
    """Refuse a model of pictures where words are counted: one patch is not another picture's patch."""
    if explainer.loaded.sees:
        raise BadPicture(
            f"{explainer.loaded.name!r} takes pictures, and patches are no words that come again elsewhere. Take "
            "a model of texts; whence.evaluate and whence.audit take pictures."
        )


@dataclass(frozen=True)
class Group:
    """Some inputs of like length: their numbers in the data set, and what was made of them."""

    numbers: list[int]
    given: list[Any]
    items: list[Encoded]
    progress: Progress


@dataclass
class Intake:
    """Hands out inputs in groups, and remembers what had to be left out or cut."""

    explainer: Explainer
    examples: Sequence[Example]
    numbers: list[int]
    progress: Progress | None = None
    used: int = 0
    _refused: dict[str, tuple[str, list[int]]] = field(
        default_factory=dict
    )  # by kind: why, and which
    _first: WhenceError | None = None
    _cut: list[int] = field(default_factory=list)

    def groups(self) -> Iterator[Group]:
        """Yield the inputs in groups of like length; `Group.progress` counts on from what came before it."""
        numbers = sorted(self.numbers, key=lambda i: (-_length(self.examples[i]), i))
        for start in range(0, len(numbers), _AT_ONCE):
            here = numbers[start : start + _AT_ONCE]
            kept, items = taken(
                [self.examples[i].given for i in here],
                self.explainer.loaded,
                True,
                self._unreadable(here),
            )
            own = [here[place] for place in kept]
            self.used += len(own)
            self._cut += [i for i, item in zip(own, items, strict=True) if item.source.dropped]
            if own:
                texts = [self.examples[i].given for i in own]
                yield Group(own, texts, items, self._counting(start, len(here)))
            self.report(start + len(here))
        if not self.used:
            kind = type(self._first) if isinstance(self._first, InputError) else BadExamples
            raise kind(f"None of the {len(numbers)} examples can be used. {self._first}")

    def report(self, done: int) -> None:
        """Say how many inputs are done; whoever listens may raise, to end it here."""
        if self.progress is not None:
            self.progress(done, len(self.numbers))

    def refuse(self, number: int, kind: str, why: str) -> None:
        """Count an input that was handed out and turned out to be of no use."""
        self.used -= 1
        self._count(number, kind, why)

    def left_out(self) -> list[str]:
        """Say in sentences what was left out, and what was cut."""
        said = []
        for why, numbers in self._refused.values():
            which = ", ".join(str(i) for i in sorted(numbers)[:_NAMED])
            more = ", ..." if len(numbers) > _NAMED else ""
            said.append(f"{_rows(len(numbers))} left out (number {which}{more}): {why}")
        if self._cut:
            longest = self.explainer.loaded.max_length
            said.append(
                f"{_rows(len(self._cut))} cut to the {longest} tokens that the model takes."
            )
        return said

    def drawn(self) -> list[str]:
        """Say so where only a sample of the rows was taken."""
        sample, given = len(self.numbers), len(self.examples)
        return [f"{sample} of {given} rows were drawn at random."] if sample < given else []

    def _count(self, number: int, kind: str, why: str) -> None:
        self._refused.setdefault(kind, (why, []))[1].append(number)

    def _unreadable(self, numbers: Sequence[int]) -> Failed:
        def failed(place: int, _: str | None, error: WhenceError) -> None:
            self._first = self._first or error
            self._count(numbers[place], error.code, str(error))

        return failed

    def _counting(self, start: int, size: int) -> Progress:
        return lambda done, total: self.report(start + size * done // max(total, 1))


def _rows(n: int) -> str:
    return "1 row was" if n == 1 else f"{n} rows were"


def _length(example: Example) -> int:
    return sum(map(len, example.texts))


"""What a model predicts for every row of a data set, and how much the true label surprises it."""

from typing import Any

import numpy as np

from whence.core.errors import BadExamples
from whence.core.types import Prediction, Task
from whence.data.sets.examples import Example, Read, read
from whence.data.sets.labels import label_places
from whence.data.sets.pictures import Stored
from whence.explainer import Explainer
from whence.explainer.work import Progress
from whence.stats import FEWEST, proportion
from whence.survey.intake import Intake, places

_BITS = 1 / np.log(2)


def predictions(
    explainer: Explainer,
    examples: Any,
    *,
    limit: int | None = 1000,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predict the first `limit` rows of a data set.

    `examples`: a file, the name of a data set, or a list, as `whence.data.sets.examples.read` takes. Texts that are
    too long are cut, and counted; what cannot be read is left out, and counted. Surprise is -log2 of the true
    label's probability; where the data have no labels of this model, the entropy of its prediction.
    `progress` is called with (rows done, rows in all).
    """
    explainer.loaded.require_labels()
    given = read(examples)
    intake = Intake(explainer, given.examples, places(given, limit, drawn=False), progress)
    truth, without = _truth(given, explainer.labels, explainer.loaded.task)
    rows: dict[int, dict[str, Any]] = {}
    for group in intake.groups():
        for number, said in zip(
            group.numbers, explainer.predict(group.given, truncate=True), strict=True
        ):
            rows[number] = _row(number, given.examples[number], said, truth, explainer)
    found = [rows[number] for number in sorted(rows)]
    judged = [row for row in found if row["right"] is not None]
    left = len(given) - len(intake.numbers)
    rest = (
        [f"Only the first {len(intake.numbers)} of {len(given)} rows were taken."] if left else []
    )
    return {
        "kind": "predicted",
        "model": explainer.loaded.name,
        "data": given.name,
        "rows": found,
        "given": len(given),
        "left_out": [*rest, *intake.left_out(), *without],
        "accuracy": _accuracy(judged),
        "confusion": _confusion(judged, explainer.labels) if judged else None,
        "labels": list(explainer.labels),
        "surprise": _meaning(bool(truth), explainer.loaded.task),
    }


def _truth(given: Read, labels: tuple[str, ...], task: Task) -> tuple[dict[str, int], list[str]]:
    """Return what the data's labels are among the model's, and a sentence where they are none of them."""
    said = [example.label for example in given.examples if example.label is not None]
    if task == "regression" or not said:
        return {}, []
    try:
        return label_places(said, labels), []
    except BadExamples as error:
        return {}, [f"The labels of the data are not used. {error}"]


def _row(
    number: int, example: Example, said: Prediction, truth: dict[str, int], explainer: Explainer
) -> dict[str, Any]:
    given = example.given
    text, pair = (given.name, None) if isinstance(given, Stored) else (*example.texts, None)[:2]
    task = explainer.loaded.task
    true = truth.get(example.label) if example.label is not None else None
    logits = np.array(said.logits)
    value = f"{said.logits[0]:.4g}" if task == "regression" else said.label
    return {
        "number": number,
        "text": text,
        "pair": pair,
        "label": example.label if true is None else explainer.labels[true],
        "predicted": value,
        "probability": said.probability,
        "surprise": _surprise(logits, true, bool(truth), task),
        "right": None if true is None else true == said.index,
    }


def _surprise(logits: Any, true: int | None, labelled: bool, task: Task) -> float | None:
    """Return bits, by way of the logits: a probability that rounds to 0 has a surprise all the same."""
    if task == "regression" or (labelled and true is None):
        return None
    yes = _log_share(logits, task)
    if true is not None:
        return float(-yes[true] * _BITS) + 0.0
    spread = -np.exp(yes) * yes
    if task == "multi_label":
        no = _log_share(-logits, task)
        spread = spread - np.exp(no) * no
    return float(spread.sum() * _BITS) + 0.0


def _log_share(logits: Any, task: Task) -> Any:
    if task == "multi_label":
        return -np.logaddexp(0, -logits)
    return logits - np.logaddexp.reduce(logits)


def _accuracy(judged: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not judged:
        return None
    n, right = len(judged), sum(row["right"] for row in judged)
    low, high = proportion(right, n) if n >= FEWEST else (None, None)
    return {"mean": right / n, "low": low, "high": high, "n": n}


def _confusion(judged: list[dict[str, Any]], labels: tuple[str, ...]) -> list[list[int]]:
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    for row in judged:
        counts[labels.index(row["label"]), labels.index(row["predicted"])] += 1
    found: list[list[int]] = counts.tolist()
    return found


def _meaning(labelled: bool, task: Task) -> str:
    if task == "regression":
        return "The model predicts a number: nothing is said about surprise."
    if labelled:
        return (
            "Surprise is -log2 of the probability that the model gives to the true label: 0 bits where it was "
            "certain, 1 where it gave one half. A row without a label has none."
        )
    return (
        "The data have no labels of this model, so surprise is the entropy of its prediction in bits: 0 where it was "
        "certain."
    )
