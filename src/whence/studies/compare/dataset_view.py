"""Views of a data set through one model, for the app: predictions, words by class, attention by head.

Surprise is -log2 of the probability of the true label, or without labels the entropy of the prediction,
in bits. A word's score in a text is its signed share of the sum of all |scores|; its score for a class is
the mean over the texts that contain it and were given the class. A head is characterised by the kind of
token (special, itself, previous, next, same word, punctuation) that gets more attention than evenly
spread attention would give it. Inputs that the model cannot take are counted and listed.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import (
    BadExamples,
    BadParameter,
    BadPicture,
    InputError,
    NotFinite,
    WhenceError,
)
from whence.core.progress import Progress
from whence.core.types import Prediction, Task
from whence.data.dataset import Dataset, find_label_indices, read_dataset, shuffle_indices
from whence.data.example import Example, StoredImage
from whence.data.tokens import EncodedInput
from whence.explain.explainer import Explainer
from whence.explain.explanation import Explanation
from whence.explain.inputs import InputFailureCallback, encode_dataset
from whence.explain.inside import Inside
from whence.explain.request import resolve_methods
from whence.flow.heads import POSITION_KINDS, compute_head_entropy, find_open_keys
from whence.flow.heads import compute_head_habits as sorted_by_kind
from whence.stats.intervals import (
    MIN_OBSERVATIONS,
    Interval,
    bootstrap,
    bootstrap_columns,
    clopper_pearson_interval,
)

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
    dataset = read_dataset(examples)
    inputs = DatasetInputs(
        explainer, dataset.examples, select_rows(dataset, limit, drawn=True), progress
    )
    measures: list[tuple[int, Array]] = []  # (index of a text, (figures, layers, heads))
    even: list[Array] = []  # (kinds, layers)
    received: dict[str, Array] = defaultdict(lambda: np.zeros(1))
    for group in inputs.groups():
        for place, (number, text) in enumerate(zip(group.numbers, group.inputs, strict=True)):
            try:
                inside = explainer.inside(text, truncate=True)
                figures, evenly = _measure_attention(inside, received)
            except NotFinite as error:
                inputs.refuse(number, error.code, str(error))
                continue
            measures.append((number, figures))
            even.append(evenly)
            group.progress(place + 1, len(group.numbers))
    return {
        "kind": "habits",
        "model": explainer.loaded.name,
        "data": dataset.name,
        "used": len(measures),
        "left_out": [*inputs.describe_sample(), *inputs.list_omissions()],
        "heads": _build_head_rows(measures, even, received) if measures else [],
        "kinds": dict(POSITION_KINDS),
    }


def _measure_attention(inside: Inside, received: dict[str, Array]) -> tuple[Array, Array]:
    """Return one text's attention shares by kind, with its entropy, and the shares of even attention.

    The first is (figures, layers, heads). The second is (kinds, layers): layers may differ in what a row can attend to.
    """
    maps = inside.attention()
    habits = sorted_by_kind(maps, inside.tokens, inside.words)
    for token, share in zip(inside.tokens, np.moveaxis(habits.received, -1, 0), strict=True):
        name = token.text if token.special else token.text.lower()
        received[name] = received[name] + share
    evenly = sorted_by_kind(_spread_evenly(maps), inside.tokens, inside.words).shares
    return (
        np.stack([*(habits.shares[kind] for kind in POSITION_KINDS), compute_head_entropy(maps)]),
        np.stack([evenly[kind][:, 0] for kind in POSITION_KINDS]),
    )


def _spread_evenly(maps: NDArray[np.floating[Any]]) -> Array:
    """Return attention spread evenly over the positions a row may attend to, (layers, 1, tokens, tokens).

    A row of a causal model attends to earlier positions only, which is no preference.
    """
    open_keys = np.stack([find_open_keys(layer) for layer in maps]).astype(np.float64)
    flat: Array = (open_keys / np.maximum(open_keys.sum(axis=-1, keepdims=True), 1))[:, None]
    return flat


def _build_head_rows(
    measures: Sequence[tuple[int, Array]], even: Sequence[Array], received: Mapping[str, Array]
) -> list[dict[str, Any]]:
    # The order of the batches must not change the draws of the bootstrap.
    order = sorted(range(len(measures)), key=lambda i: measures[i][0])
    columns = np.stack([measures[i][1] for i in order])
    n, figures, layers, heads = columns.shape
    intervals = np.array(bootstrap_columns(columns.reshape(n, -1), ("habits",)), dtype=object)
    by_head = intervals.reshape(figures, layers, heads)
    evenly = np.mean(even, axis=0)
    return [
        _build_head_row(
            layer,
            head,
            by_head[:, layer, head].tolist(),
            _select_top_tokens(received, layer, head, n),
            dict(zip(POSITION_KINDS, evenly[:, layer].tolist(), strict=True)),
        )
        for layer in range(layers)
        for head in range(heads)
    ]


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
        "shares": {kind: _to_interval_dict(interval) for kind, interval in shares.items()},
        "entropy": _to_interval_dict(intervals[-1]),
        "tokens": tokens,
        "words": f"gives {shares[most].mean:.0%} of its attention to {_KIND_NAMES[most]}; spread evenly it would be "
        f"{even[most]:.0%}",
    }


def _select_top_tokens(
    received: Mapping[str, Array], layer: int, head: int, n: int
) -> list[tuple[str, float]]:
    means = {token: float(total[layer, head]) / n for token, total in received.items()}
    return sorted(means.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOP_TOKENS]


def _to_interval_dict(interval: Interval) -> dict[str, Any]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


_GROUP_SIZE = 64  # inputs between two progress reports, which may cancel
_MAX_LISTED = 5


def select_rows(dataset: Dataset, limit: int | None, *, drawn: bool) -> list[int]:
    """Return the indices of the first `limit` rows, or of `limit` drawn ones, in ascending order."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1, or None. Got {limit!r}.")
    order = shuffle_indices(dataset.examples) if drawn else range(len(dataset.examples))
    return sorted(order[:limit])


def check_text_model(explainer: Explainer) -> None:
    """Refuse an image model where words are counted: a patch is no feature across images."""
    if explainer.loaded.takes_images:
        raise BadPicture(
            f"{explainer.loaded.name!r} takes pictures, and patches are no words that come again elsewhere. Take "
            "a model of texts; whence.evaluate and whence.studies.audit take pictures."
        )


@dataclass(frozen=True)
class InputGroup:
    """Inputs of similar length: their indices in the data set, and their encodings."""

    numbers: list[int]
    inputs: list[Any]
    items: list[EncodedInput]
    progress: Progress


@dataclass
class DatasetInputs:
    """Encodes inputs in groups, and counts the omitted and truncated ones."""

    explainer: Explainer
    examples: Sequence[Example]
    numbers: list[int]
    progress: Progress | None = None
    used: int = 0
    _refused: dict[str, tuple[str, list[int]]] = field(
        default_factory=dict
    )  # by error code: message, and indices of inputs
    _first: WhenceError | None = None
    _cut: list[int] = field(default_factory=list)

    def groups(self) -> Iterator[InputGroup]:
        """Yield the inputs in groups of similar length, each with a progress callback."""
        numbers = sorted(self.numbers, key=lambda i: (-_count_characters(self.examples[i]), i))
        for start in range(0, len(numbers), _GROUP_SIZE):
            here = numbers[start : start + _GROUP_SIZE]
            readable = encode_dataset(
                [self.examples[i].given for i in here],
                self.explainer.loaded,
                True,
                self._record_failures(here),
            )
            items, own = readable.items, [here[place] for place in readable.numbers]
            self.used += len(own)
            self._cut += [i for i, item in zip(own, items, strict=True) if item.source.dropped]
            if own:
                texts = [self.examples[i].given for i in own]
                yield InputGroup(own, texts, items, self._build_progress(start, len(here)))
            self.report(start + len(here))
        if not self.used:
            kind = type(self._first) if isinstance(self._first, InputError) else BadExamples
            raise kind(f"None of the {len(numbers)} examples can be used. {self._first}")

    def report(self, count: int) -> None:
        """Report the number of finished inputs; the callback may raise to cancel."""
        if self.progress is not None:
            self.progress(count, len(self.numbers))

    def refuse(self, number: int, kind: str, why: str) -> None:
        """Count an input of a group as omitted."""
        self.used -= 1
        self._count(number, kind, why)

    def list_omissions(self) -> list[str]:
        """Return sentences on omitted and truncated inputs."""
        lines = []
        for why, numbers in self._refused.values():
            which = ", ".join(str(i) for i in sorted(numbers)[:_MAX_LISTED])
            more = ", ..." if len(numbers) > _MAX_LISTED else ""
            lines.append(
                f"{_format_row_count(len(numbers))} left out (number {which}{more}): {why}"
            )
        if self._cut:
            longest = self.explainer.loaded.max_length
            lines.append(
                f"{_format_row_count(len(self._cut))} cut to the {longest} tokens that the model takes."
            )
        return lines

    def describe_sample(self) -> list[str]:
        """Return a sentence if only a sample of the rows was used."""
        sample, total = len(self.numbers), len(self.examples)
        return [f"{sample} of {total} rows were drawn at random."] if sample < total else []

    def _count(self, number: int, kind: str, why: str) -> None:
        self._refused.setdefault(kind, (why, []))[1].append(number)

    def _record_failures(self, numbers: Sequence[int]) -> InputFailureCallback:
        def record_failure(place: int, _: str | None, error: WhenceError) -> None:
            self._first = self._first or error
            self._count(numbers[place], error.code, str(error))

        return record_failure

    def _build_progress(self, start: int, size: int) -> Progress:
        return lambda count, total: self.report(start + size * count // max(total, 1))


def _format_row_count(n: int) -> str:
    return "1 row was" if n == 1 else f"{n} rows were"


def _count_characters(example: Example) -> int:
    return sum(map(len, example.texts))


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
    explainer.loaded.check_classifier()
    dataset = read_dataset(examples)
    inputs = DatasetInputs(
        explainer, dataset.examples, select_rows(dataset, limit, drawn=False), progress
    )
    truth, without = _resolve_true_labels(dataset, explainer.labels, explainer.loaded.task)
    rows: dict[int, dict[str, Any]] = {}
    for group in inputs.groups():
        for number, prediction in zip(
            group.numbers, explainer.predict(group.inputs, truncate=True), strict=True
        ):
            rows[number] = _build_prediction_row(
                number, dataset.examples[number], prediction, truth, explainer
            )
    row_list = [rows[number] for number in sorted(rows)]
    judged = [row for row in row_list if row["right"] is not None]
    left = len(dataset.examples) - len(inputs.numbers)
    rest = (
        [f"Only the first {len(inputs.numbers)} of {len(dataset.examples)} rows were taken."]
        if left
        else []
    )
    return {
        "kind": "predicted",
        "model": explainer.loaded.name,
        "data": dataset.name,
        "rows": row_list,
        "given": len(dataset.examples),
        "left_out": [*rest, *inputs.list_omissions(), *without],
        "accuracy": _compute_accuracy(judged),
        "confusion": _count_confusion(judged, explainer.labels) if judged else None,
        "labels": list(explainer.labels),
        "surprise": _describe_surprise(bool(truth), explainer.loaded.task),
    }


def _resolve_true_labels(
    dataset: Dataset, labels: tuple[str, ...], task: Task
) -> tuple[dict[str, int], list[str]]:
    """Return the model's label index of each row, and a sentence if the data has other labels."""
    label_names = [example.label for example in dataset.examples if example.label is not None]
    if task == "regression" or not label_names:
        return {}, []
    try:
        return find_label_indices(label_names, labels), []
    except BadExamples as error:
        return {}, [f"The labels of the data are not used. {error}"]


def _build_prediction_row(
    number: int,
    example: Example,
    prediction: Prediction,
    truth: dict[str, int],
    explainer: Explainer,
) -> dict[str, Any]:
    content = example.given
    text, pair = (
        (content.name, None) if isinstance(content, StoredImage) else (*example.texts, None)[:2]
    )
    task = explainer.loaded.task
    true = truth.get(example.label) if example.label is not None else None
    logits = np.array(prediction.logits)
    value = f"{prediction.logits[0]:.4g}" if task == "regression" else prediction.label
    return {
        "number": number,
        "text": text,
        "pair": pair,
        "label": example.label if true is None else explainer.labels[true],
        "predicted": value,
        "probability": prediction.probability,
        "surprise": _compute_surprise(logits, true, bool(truth), task),
        "right": None if true is None else true == prediction.index,
    }


def _compute_surprise(logits: Any, true: int | None, labelled: bool, task: Task) -> float | None:
    """Return the surprise in bits, from the logits: finite even if a probability rounds to 0."""
    if task == "regression" or (labelled and true is None):
        return None
    yes = _compute_log_probability(logits, task)
    if true is not None:
        return float(-yes[true] * _BITS_PER_NAT) + 0.0
    spread = -np.exp(yes) * yes
    if task == "multi_label":
        no = _compute_log_probability(-logits, task)
        spread = spread - np.exp(no) * no
    return float(spread.sum() * _BITS_PER_NAT) + 0.0


def _compute_log_probability(logits: Any, task: Task) -> Any:
    if task == "multi_label":
        return -np.logaddexp(0, -logits)
    return logits - np.logaddexp.reduce(logits)


def _compute_accuracy(judged: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not judged:
        return None
    n, right = len(judged), sum(row["right"] for row in judged)
    low, high = clopper_pearson_interval(right, n) if n >= MIN_OBSERVATIONS else (None, None)
    return {"mean": right / n, "low": low, "high": high, "n": n}


def _count_confusion(judged: list[dict[str, Any]], labels: tuple[str, ...]) -> list[list[int]]:
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    for row in judged:
        counts[labels.index(row["label"]), labels.index(row["predicted"])] += 1
    matrix: list[list[int]] = counts.tolist()
    return matrix


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

# By class and word: the index of each text, and the word's share in it.
WordShares = dict[str, dict[str, dict[int, float]]]


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
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise BadParameter(f"least must be a whole number of texts, at least 1. Got {least!r}.")
    explainer.loaded.check_classifier()
    method = explainer.default_method() if method is None else method
    (request,) = resolve_methods(method, None, explainer.fillers)
    check_text_model(explainer)
    dataset = read_dataset(examples)
    inputs = DatasetInputs(
        explainer, dataset.examples, select_rows(dataset, limit, drawn=True), progress
    )
    word_shares: WordShares = {label: defaultdict(dict) for label in explainer.labels}
    predicted = dict.fromkeys(explainer.labels, 0)
    even = 0.0
    for group in inputs.groups():
        for number, explanation in _explain_group(explainer, group, method, inputs):
            shares = _compute_word_shares(explanation)
            if not shares:
                inputs.refuse(number, "zero", f"{method} gives every word a score of 0.")
                continue
            predicted[explanation.prediction.label] += 1
            even += 1 / len(explanation.spans)
            for word, share in shares.items():
                word_shares[explanation.prediction.label][word][number] = share
    return {
        "kind": "leaning",
        "model": explainer.loaded.name,
        "data": dataset.name,
        "method": method,
        "signed": request.is_signed,
        "used": inputs.used,
        "left_out": [*inputs.describe_sample(), *inputs.list_omissions()],
        "classes": [
            {
                "label": label,
                "predicted": predicted[label],
                "words": _select_top_words(word_shares[label], label, least),
            }
            for label in explainer.labels
        ],
        "note": _describe_word_scores(
            request.is_signed, least, even / max(inputs.used, 1), explainer.loaded.task
        ),
    }


def _explain_group(
    explainer: Explainer, group: InputGroup, method: str, inputs: DatasetInputs
) -> list[tuple[int, Explanation]]:
    """Explain a group of inputs; if that fails, explain them one by one to find the failing ones."""
    try:
        explanations = explainer.explain(
            group.inputs, method=method, truncate=True, progress=group.progress
        )
        return list(zip(group.numbers, explanations, strict=True))
    except NotFinite:
        pass
    pairs = []
    for number, text in zip(group.numbers, group.inputs, strict=True):
        try:
            pairs.append((number, explainer.explain(text, method=method, truncate=True)))
        except NotFinite as error:
            inputs.refuse(number, error.code, str(error))
    return pairs


def _compute_word_shares(explanation: Explanation) -> dict[str, float]:
    """Return each word's signed share of the sum of |scores|; empty if all scores are 0."""
    scores = [word.score for word in explanation.words()]
    total = sum(map(abs, scores))
    shares: dict[str, float] = defaultdict(float)
    if total > 0:
        for word, score in zip(explanation.spans, scores, strict=True):
            shares[word.text.lower()] += score / total
    return shares


def _select_top_words(
    word_shares: dict[str, dict[int, float]], label: str, least: int
) -> list[dict[str, Any]]:
    frequent = {word: shares for word, shares in word_shares.items() if len(shares) >= least}
    order = sorted(frequent, key=lambda word: (-abs(_compute_mean_share(frequent[word])), word))
    return [_build_word_row(word, frequent[word], label) for word in order[:_MAX_WORDS]]


def _build_word_row(word: str, shares: dict[int, float], label: str) -> dict[str, Any]:
    numbers = sorted(shares)
    score = bootstrap([shares[i] for i in numbers], ("leaning", label, word))
    telling = sorted(numbers, key=lambda i: (-abs(shares[i]), i))[:_MAX_EXAMPLES]
    return {
        "word": word,
        "score": {"mean": score.mean, "low": score.low, "high": score.high, "n": score.n},
        "examples": telling,
    }


def _compute_mean_share(shares: dict[int, float]) -> float:
    return sum(shares.values()) / len(shares)


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
