"""Views of a data set through one model, for the app: predictions, words by class, attention by head.

Surprise is -log2 of the probability of the true label, or without labels the entropy of the prediction,
in bits. A word's score in a text is its signed share of the sum of all |scores|; its score for a class is
the mean over the texts that contain it and were given the class. A head is characterised by the kind of
token (special, itself, previous, next, same word, punctuation) that gets more attention than evenly
spread attention would give it. Inputs that the model cannot take are counted and listed.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax

from whence.core.errors import (
    BadExamples,
    BadPicture,
    InputError,
    NotFinite,
    WhenceError,
)
from whence.core.progress import Progress
from whence.core.types import InputText, Prediction, Task
from whence.data.dataset import find_label_indices, read_dataset, shuffle_indices
from whence.data.example import Example, StoredImage
from whence.explain.explainer import Explainer
from whence.explain.explanation import Explanation
from whence.explain.inputs import encode_dataset
from whence.explain.inside import Inside
from whence.explain.request import resolve_methods
from whence.flow.heads import (
    POSITION_KINDS,
    compute_head_entropy,
    compute_head_habits,
    find_open_keys,
)
from whence.models.model import LoadedModel
from whence.stats.intervals import (
    MIN_OBSERVATIONS,
    Interval,
    bootstrap,
    bootstrap_columns,
    clopper_pearson_interval,
)
from whence.studies.evaluation.scores import ReasonCounts

Array = NDArray[np.float64]

_TOP_TOKENS = 5  # per head
_KIND_NAMES = {
    "special": "special tokens",
    "itself": "the token itself",
    "previous": "the token before",
    "next": "the token after",
    "same word": "the same word",
    "punctuation": "punctuation",
    "other": "other tokens",
}


def summarise_heads(
    explainer: Explainer,
    examples: Any,
    *,
    limit: int | None = 100,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure the attention of every head on a sample of a data set, by kind of token attended to.

    A share is the mean over texts and rows of a head's attention to tokens of a kind. Entropy is that of the rows, as a
    share of its maximum. The listed tokens are those that get most attention, at any position.
    """
    check_text_model(explainer)
    inputs = DatasetInputs(explainer, examples, limit, progress, drawn=True)
    measures: dict[int, tuple[Array, Array]] = {}  # (figures, layers, heads) and (kinds, layers)
    received: dict[str, Array] = defaultdict(lambda: np.zeros(1))
    for place, number in enumerate(inputs.numbers):
        try:
            inside = explainer.inside(inputs.texts[place], truncate=True)
            measures[number] = _measure_attention(inside, received)
            inputs.record_length(place, inside.source)
        except (InputError, NotFinite) as error:
            inputs.record_failure(place, None, error)
        inputs.report(place + 1, len(inputs.numbers))
    return {
        "kind": "habits",
        "model": explainer.loaded.name,
        "data": inputs.name,
        "used": len(measures),
        "left_out": inputs.list_omissions(),
        # The order of the batches must not change the draws of the bootstrap.
        "heads": _build_head_rows([measures[number] for number in sorted(measures)], received),
        "kinds": dict(POSITION_KINDS),
    }


def _measure_attention(inside: Inside, received: dict[str, Array]) -> tuple[Array, Array]:
    """Return one text's attention shares by kind, with its entropy, and the shares of even attention.

    The first is (figures, layers, heads). The second is (kinds, layers): layers may differ in what a row can attend to.
    """
    maps = inside.attention()
    habits = compute_head_habits(maps, inside.tokens, inside.words)
    for token, share in zip(inside.tokens, np.moveaxis(habits.received, -1, 0), strict=True):
        name = token.text if token.special else token.text.lower()
        received[name] = received[name] + share
    # A row of a causal model attends to earlier positions only, which is no preference.
    open_keys = np.stack([find_open_keys(layer) for layer in maps]).astype(np.float64)
    flat: Array = (open_keys / np.maximum(open_keys.sum(axis=-1, keepdims=True), 1))[:, None]
    evenly = compute_head_habits(flat, inside.tokens, inside.words).shares
    return (
        np.stack([*(habits.shares[kind] for kind in POSITION_KINDS), compute_head_entropy(maps)]),
        np.stack([evenly[kind][:, 0] for kind in POSITION_KINDS]),
    )


def _build_head_rows(
    measures: Sequence[tuple[Array, Array]], received: Mapping[str, Array]
) -> list[dict[str, Any]]:
    columns = np.stack([figures for figures, _ in measures])
    n, figures, layers, heads = columns.shape
    intervals = np.array(bootstrap_columns(columns.reshape(n, -1), ("habits",)), dtype=object)
    by_head = intervals.reshape(figures, layers, heads)
    evenly = np.mean([even for _, even in measures], axis=0)
    rows = []
    for layer, head in product(range(layers), range(heads)):
        means = {token: float(total[layer, head]) / n for token, total in received.items()}
        top = sorted(means.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOP_TOKENS]
        even = dict(zip(POSITION_KINDS, evenly[:, layer].tolist(), strict=True))
        rows.append(_build_head_row(layer, head, by_head[:, layer, head].tolist(), top, even))
    return rows


def _build_head_row(
    layer: int,
    head: int,
    intervals: Sequence[Interval],
    tokens: list[tuple[str, float]],
    even: Mapping[str, float],
) -> dict[str, Any]:
    shares = dict(zip(POSITION_KINDS, intervals, strict=False))
    # A head is characterised by the kind with the largest excess over even attention, not the largest share.
    most = max(shares, key=lambda kind: shares[kind].mean - even[kind])
    return {
        "layer": layer,
        "head": head,
        "shares": {kind: asdict(interval) for kind, interval in shares.items()},
        "entropy": asdict(intervals[-1]),
        "tokens": tokens,
        "words": f"gives {shares[most].mean:.0%} of its attention to {_KIND_NAMES[most]}; spread evenly it would be "
        f"{even[most]:.0%}",
    }


_GROUP_SIZE = 64  # inputs between two progress reports, which may cancel


def check_text_model(explainer: Explainer) -> None:
    """Refuse an image model where words are counted: a patch is no feature across images."""
    if explainer.loaded.takes_images:
        raise BadPicture(
            f"{explainer.loaded.name!r} takes pictures, and patches are no words that come again elsewhere. Take "
            "a model of texts; whence.evaluate and whence.studies.audit take pictures."
        )


class DatasetInputs:
    """The rows of a data set that a view takes, the first or drawn ones; counts those that cannot be used."""

    def __init__(
        self,
        explainer: Explainer,
        examples: Any,
        limit: int | None,
        progress: Progress | None,
        *,
        drawn: bool,
    ) -> None:
        dataset = read_dataset(examples)
        self.name, self.examples = dataset.name, dataset.examples
        order = shuffle_indices(self.examples) if drawn else range(len(self.examples))
        # Longest first, as batches are.
        self.numbers = sorted(
            order[:limit], key=lambda i: (-sum(map(len, self.examples[i].texts)), i)
        )
        self.texts = [self.examples[number].given for number in self.numbers]
        self._drawn = drawn
        self._progress = progress
        self._max_length = explainer.loaded.max_length
        self.reasons = ReasonCounts()  # of the rows that are left out
        self._first: WhenceError | None = None
        self._cut: set[int] = set()

    @property
    def count(self) -> int:
        """The number of usable rows."""
        return len(self.numbers) - len(self.reasons)

    def record_failure(self, place: int, _: str | None, error: WhenceError) -> None:
        """Count a row, by its place in `texts`, as one that cannot be used."""
        self._first = self._first or error
        self.reasons.add(str(error), self.numbers[place], error.code)

    def record_length(self, place: int, source: InputText) -> None:
        """Count a row if it was cut."""
        if source.dropped:
            self._cut.add(place)

    def report(self, done: int, total: int) -> None:
        """Report the finished share of the rows; the callback may raise to cancel."""
        if self._progress is not None:
            self._progress(len(self.numbers) * done // max(total, 1), len(self.numbers))

    def list_omissions(self) -> list[str]:
        """Return sentences on rows that were not drawn, not usable or truncated; refuse data without usable ones."""
        taken, given = len(self.numbers), len(self.examples)
        if not self.count and self._first is not None:
            raise type(self._first)(f"None of the {taken} examples can be used. {self._first}")
        how = (
            f"{taken} of {given} rows were drawn at random."
            if self._drawn
            else f"Only the first {taken} of {given} rows were taken."
        )
        lines = [how] if taken < given else []
        for reason in self.reasons.to_list():
            which = ", ".join(map(str, reason["examples"]))
            more = ", ..." if reason["count"] > len(reason["examples"]) else ""
            rows = _format_rows(reason["count"])
            lines.append(f"{rows} left out (number {which}{more}): {reason['why']}")
        if self._cut:
            lines.append(
                f"{_format_rows(len(self._cut))} cut to the {self._max_length} tokens that the model takes."
            )
        return lines


def _format_rows(n: int) -> str:
    return "1 row was" if n == 1 else f"{n} rows were"


_BITS_PER_NAT = 1 / np.log(2)


def predict_dataset(
    explainer: Explainer,
    examples: Any,
    *,
    limit: int | None = 1000,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predict the first `limit` rows of a data set.

    `examples`: a file, the name of a data set, or a list, as `whence.data.dataset.read_dataset` takes. Texts that are
    too long are truncated, and counted; unreadable ones are omitted, and counted. Surprise is -log2 of the true label's
    probability; without labels of this model, the entropy of its prediction.
    `progress` is called with (rows done, rows in all).
    """
    loaded = explainer.loaded
    loaded.check_classifier()
    inputs = DatasetInputs(explainer, examples, limit, progress, drawn=False)
    labels = [example.label for example in inputs.examples if example.label is not None]
    truth, without = dict[str, int](), list[str]()
    if labels and loaded.task != "regression":
        try:
            truth = find_label_indices(labels, loaded.labels)
        except BadExamples as error:
            without.append(f"The labels of the data are not used. {error}")
    encoded = encode_dataset(inputs.texts, loaded, True, inputs.record_failure).by_number()
    rows: dict[int, dict[str, Any]] = {}
    for start in range(0, len(encoded), _GROUP_SIZE):
        places = list(encoded)[start : start + _GROUP_SIZE]
        predictions = explainer.predict([inputs.texts[place] for place in places], truncate=True)
        for place, prediction in zip(places, predictions, strict=True):
            number = inputs.numbers[place]
            inputs.record_length(place, encoded[place].source)
            rows[number] = _build_prediction_row(
                number, inputs.examples[number], prediction, truth, loaded
            )
        inputs.report(start + len(places), len(encoded))
    row_list = [rows[number] for number in sorted(rows)]
    judged = [row for row in row_list if row["right"] is not None]
    accuracy, n = None, len(judged)
    if judged:
        right = sum(row["right"] for row in judged)
        low, high = clopper_pearson_interval(right, n) if n >= MIN_OBSERVATIONS else (None, None)
        accuracy = {"mean": right / n, "low": low, "high": high, "n": n}
    confusion = np.zeros((len(loaded.labels), len(loaded.labels)), dtype=int)
    for row in judged:
        confusion[loaded.labels.index(row["label"]), loaded.labels.index(row["predicted"])] += 1
    return {
        "kind": "predicted",
        "model": loaded.name,
        "data": inputs.name,
        "rows": row_list,
        "given": len(inputs.examples),
        "left_out": [*inputs.list_omissions(), *without],
        "accuracy": accuracy,
        "confusion": confusion.tolist() if judged else None,
        "labels": list(loaded.labels),
        "surprise": _describe_surprise(bool(truth), loaded.task),
    }


def _build_prediction_row(
    number: int,
    example: Example,
    prediction: Prediction,
    truth: dict[str, int],
    loaded: LoadedModel,
) -> dict[str, Any]:
    content, value = example.given, prediction.label
    text, pair = (
        (content.name, None) if isinstance(content, StoredImage) else (*example.texts, None)[:2]
    )
    if loaded.task == "regression":
        value = f"{prediction.logits[0]:.4g}"
    true = truth.get(example.label) if example.label is not None else None
    return {
        "number": number,
        "text": text,
        "pair": pair,
        "label": example.label if true is None else loaded.labels[true],
        "predicted": value,
        "probability": prediction.probability,
        "surprise": _compute_surprise(np.array(prediction.logits), true, bool(truth), loaded.task),
        "right": None if true is None else true == prediction.index,
    }


def _compute_surprise(logits: Any, true: int | None, labelled: bool, task: Task) -> float | None:
    """Return the surprise in bits, from the logits: finite even if a probability rounds to 0."""
    if task == "regression" or (labelled and true is None):
        return None
    compute_log = log_expit if task == "multi_label" else log_softmax
    yes = compute_log(logits)
    if true is not None:
        return float(-yes[true] * _BITS_PER_NAT) + 0.0
    spread = -np.exp(yes) * yes
    if task == "multi_label":
        no = compute_log(-logits)
        spread = spread - np.exp(no) * no
    return float(spread.sum() * _BITS_PER_NAT) + 0.0


def _describe_surprise(labelled: bool, task: Task) -> str:
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


_MAX_WORDS = 50  # words per class
_MAX_EXAMPLES = 5  # texts per word


def summarise_words(
    explainer: Explainer,
    examples: Any,
    *,
    method: str | None = None,
    limit: int | None = 100,
    least: int = 3,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Explain a sample of a data set, and return the words with the largest scores by predicted class.

    A word's score in a text is its signed share of the sum of all words' |scores|; repeated words are summed. Its score
    for a class is the mean over the texts that contain it and for which the class was predicted, at least `least` of
    them. Words are lower-cased. Without a `method` it is the model's default.
    """
    explainer.loaded.check_classifier()
    method = explainer.default_method() if method is None else method
    (request,) = resolve_methods(method, None, explainer.fillers)
    check_text_model(explainer)
    inputs = DatasetInputs(explainer, examples, limit, progress, drawn=True)
    # By class and word: the index of each text, and the word's share in it.
    word_shares: dict[str, dict[str, dict[int, float]]] = {
        label: defaultdict(dict) for label in explainer.labels
    }
    predicted = dict.fromkeys(explainer.labels, 0)
    even = 0.0
    explained = explainer.explain_each(
        inputs.texts,
        method=method,
        truncate=True,
        failed=inputs.record_failure,
        words=True,
        progress=inputs.report,
    )
    for place, by_method in explained:
        explanation, number = by_method[method], inputs.numbers[place]
        inputs.record_length(place, explanation.source)
        if shares := _compute_word_shares(explanation):
            predicted[explanation.prediction.label] += 1
            even += 1 / len(explanation.spans)
            for word, share in shares.items():
                word_shares[explanation.prediction.label][word][number] = share
        else:
            inputs.reasons.add(f"{method} gives every word a score of 0.", number, "zero")
    return {
        "kind": "leaning",
        "model": explainer.loaded.name,
        "data": inputs.name,
        "method": method,
        "signed": request.is_signed,
        "used": inputs.count,
        "left_out": inputs.list_omissions(),
        "classes": [
            {
                "label": label,
                "predicted": predicted[label],
                "words": _build_word_rows(word_shares[label], label, least),
            }
            for label in explainer.labels
        ],
        "note": _describe_word_scores(
            request.is_signed, least, even / max(inputs.count, 1), explainer.loaded.task
        ),
    }


def _compute_word_shares(explanation: Explanation) -> dict[str, float]:
    """Return each word's signed share of the sum of |scores|; empty if all scores are 0."""
    scores = [word.score for word in explanation.words()]
    total = sum(map(abs, scores))
    shares: dict[str, float] = defaultdict(float)
    if total > 0:
        for word, score in zip(explanation.spans, scores, strict=True):
            shares[word.text.lower()] += score / total
    return shares


def _build_word_rows(
    word_shares: dict[str, dict[int, float]], label: str, least: int
) -> list[dict[str, Any]]:
    """Return the words of at least `least` texts, those of the largest mean share first."""
    means = {
        word: sum(shares.values()) / len(shares)
        for word, shares in word_shares.items()
        if len(shares) >= least
    }
    rows = []
    for word in sorted(means, key=lambda word: (-abs(means[word]), word))[:_MAX_WORDS]:
        shares = dict(sorted(word_shares[word].items()))
        rows.append(
            {
                "word": word,
                "score": asdict(bootstrap(list(shares.values()), ("leaning", label, word))),
                "examples": sorted(shares, key=lambda i: (-abs(shares[i]), i))[:_MAX_EXAMPLES],
            }
        )
    return rows


def _describe_word_scores(signed: bool, least: int, even: float, task: str) -> str:
    value = task == "regression"
    what, which = ("a higher value", "") if value else ("the class", "were given this class and ")
    sign = (
        f"above 0 it speaks for {what}, below 0 against it"
        if signed
        else f"the method gives no sign, so a word may speak for or against {what}"
    )
    return (
        f"A score is the word's share of all that the words of its text weigh, in the mean over the texts that "
        f"{which}have the word, at least {least}; {sign}. If all words weighed the same, each would "
        f"have {even:.3f}. Which words a method points at is what it says of the model, not yet what is true of it."
    )
