"""Zero-shot classification: a model of entailment is asked whether the text says that it is about a label."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from whence.capture import TargetSpec
from whence.core.errors import BadEncoding, BadParameter, NoHead
from whence.data import Encoded
from whence.data.reading import REST, Column
from whence.explainer.aims import Aimed, Asked
from whence.explainer.aims.outputs import logits
from whence.explainer.intake import take_pair
from whence.models import Loaded

TEMPLATE = "This example is {}."


def zero_shot(loaded: Loaded, items: list[Encoded], asked: Asked) -> Aimed:
    """Read the entailment of the best label's sentence, or of the one that is asked about."""
    column = entailment(loaded)
    labels = _labels(asked.labels)
    sentences = [_template(asked.template).replace("{}", label) for label in labels]
    spec = TargetSpec.parse(asked.target, labels, asked.of)
    if spec.against is not None:
        raise BadParameter(
            f"Zero-shot classification explains one label at a time: each is a sentence of its own. Got "
            f"{asked.target!r}; explain both and compare."
        )
    pairs = [
        replace(
            take_pair((_text(item), sentence), loaded, truncate=asked.truncate, cut="only_first"),
            reading=Column(column),
            labels=(label, REST),
        )
        for item in items
        for label, sentence in zip(labels, sentences, strict=True)
    ]
    said = [float(row[0]) for row in logits(loaded, pairs)]
    aimed = []
    for number in range(len(items)):
        own = slice(number * len(labels), (number + 1) * len(labels))
        aimed.append(_aimed(pairs[own], said[own], spec, labels))
    return Aimed(aimed, TargetSpec(0, None, spec.of), forwards=len(labels))


def entailment(loaded: Loaded) -> int:
    """Return the output that says that the second text follows from the first."""
    found = _entails(loaded)
    if found is None:
        raise NoHead(
            f"labels= is for models of entailment (NLI), one of whose labels is 'entailment', and {loaded.name!r} "
            f"has {', '.join(loaded.labels[:8])}. Leave labels out, or load such a model."
        )
    return found


def can_zero_shot(loaded: Loaded) -> bool:
    """Say whether a model can be given labels to choose from: whether one of its own is entailment."""
    return _entails(loaded) is not None


def _entails(loaded: Loaded) -> int | None:
    found = [i for i, label in enumerate(loaded.labels) if label.lower().startswith("entail")]
    return found[0] if loaded.task == "single_label" and len(found) == 1 else None


def _labels(given: Any) -> tuple[str, ...]:
    """Check the labels to choose from."""
    listed = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    given = list(given) if listed else given
    if not listed or not all(isinstance(label, str) for label in given):
        raise BadParameter(
            f"labels is a list of texts, like ['sports', 'politics']. Got {given!r}."
        )
    labels = tuple(label.strip() for label in given)
    if not labels or not all(labels):
        raise BadParameter(f"labels must name at least one label, and no empty one. Got {given!r}.")
    if twice := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise BadParameter(f"The label {twice[0]!r} is given twice. Give each once.")
    if reserved := [label for label in labels if label == REST]:
        raise BadParameter(
            f"{reserved[0]!r} cannot be a label: it names what is left over. Give another."
        )
    return labels


def _template(given: str | None) -> str:
    template = TEMPLATE if given is None else given
    if not isinstance(template, str) or template.count("{}") != 1:
        raise BadParameter(
            f"template is a sentence with {{}} once, where the label goes: {TEMPLATE!r}. Got {given!r}."
        )
    return template


def _text(item: Encoded) -> str:
    if item.source.text is None or item.source.pair is not None:
        what = "a pair" if item.source.pair is not None else "encoded input"
        raise BadEncoding(
            f"Zero-shot classification takes one text, and makes the pair of it and a label's sentence. Got {what}; "
            "give a text."
        )
    return item.source.text


def _aimed(
    pairs: list[Encoded], said: list[float], spec: TargetSpec, labels: tuple[str, ...]
) -> Encoded:
    """Return the pair that is explained; its reading knows what the model said about the others."""
    order = sorted(range(len(labels)), key=lambda i: (-said[i], i))
    chosen = spec.main
    if not isinstance(chosen, int):
        chosen = order[0 if chosen == "predicted" else 1]
    beside = tuple((labels[i], said[i]) for i in order if i != chosen)
    item = pairs[chosen]
    assert isinstance(item.reading, Column)
    return replace(item, reading=replace(item.reading, beside=beside))
