"""Targets of zero-shot classification: the entailment of each label's sentence by the text."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from whence.core.errors import BadEncoding, BadParameter, NoHead
from whence.data.readout import REST_LABEL, ClassReadout
from whence.data.tokens import EncodedInput
from whence.explain.inputs import encode_value
from whence.explain.tasks import TargetedInputs, TargetRequest, read_logits
from whence.models.model import LoadedModel
from whence.tracing.target import TargetSpec

TEMPLATE = "This example is {}."


def resolve_zero_shot(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Resolve the target of zero-shot classification: entailment of the best or requested label."""
    column = find_entailment_label(loaded)
    if column is None:
        raise NoHead(
            f"labels= is for models of entailment (NLI), one of whose labels is 'entailment', and {loaded.name!r} "
            f"has {', '.join(loaded.labels[:8])}. Leave labels out, or load such a model."
        )
    labels = _check_labels(request.labels)
    template = TEMPLATE if request.template is None else request.template
    if not isinstance(template, str) or template.count("{}") != 1:
        raise BadParameter(
            f"template is a sentence with {{}} once, where the label goes: {TEMPLATE!r}. Got {template!r}."
        )
    spec = TargetSpec.parse(request.target, labels, request.of)
    if spec.against is not None:
        raise BadParameter(
            f"Zero-shot classification explains one label at a time: each is a sentence of its own. Got "
            f"{request.target!r}; explain both and compare."
        )
    pairs = []
    for item in items:
        if item.source.text is None or item.source.pair is not None:
            what = "a pair" if item.source.pair is not None else "encoded input"
            raise BadEncoding(
                f"Zero-shot classification takes one text, and makes the pair of it and a label's sentence. Got {what}; "
                "give a text."
            )
        for label in labels:
            texts = (item.source.text, template.replace("{}", label))
            (pair,) = encode_value(texts, loaded, request.truncate, "only_first")
            reading = ClassReadout(column)
            pairs.append(replace(pair, reading=reading, labels=(label, REST_LABEL)))
    logits = [float(row[0]) for row in read_logits(loaded, pairs)]
    targeted = []
    for number in range(len(items)):
        own = slice(number * len(labels), (number + 1) * len(labels))
        targeted.append(_select_pair(pairs[own], logits[own], spec, labels))
    return TargetedInputs(targeted, TargetSpec(0, None, spec.of), forwards=len(labels))


def find_entailment_label(loaded: LoadedModel) -> int | None:
    """Return the index of the entailment output; None for a model that cannot classify without training."""
    matches = [i for i, label in enumerate(loaded.labels) if label.lower().startswith("entail")]
    return matches[0] if loaded.task == "single_label" and len(matches) == 1 else None


def _check_labels(value: Any) -> tuple[str, ...]:
    """Return the candidate labels; refuse empty, repeated and reserved ones."""
    listed = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    value = list(value) if listed else value
    if not listed or not all(isinstance(label, str) for label in value):
        raise BadParameter(
            f"labels is a list of texts, like ['sports', 'politics']. Got {value!r}."
        )
    labels = tuple(label.strip() for label in value)
    if not labels or not all(labels):
        raise BadParameter(f"labels must name at least one label, and no empty one. Got {value!r}.")
    if twice := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise BadParameter(f"The label {twice[0]!r} is given twice. Give each once.")
    if reserved := [label for label in labels if label == REST_LABEL]:
        raise BadParameter(
            f"{reserved[0]!r} cannot be a label: it names what is left over. Give another."
        )
    return labels


def _select_pair(
    pairs: list[EncodedInput], logits: list[float], spec: TargetSpec, labels: tuple[str, ...]
) -> EncodedInput:
    """Return the pair to explain; its readout keeps the logits of the other labels."""
    order = sorted(range(len(labels)), key=lambda i: (-logits[i], i))
    chosen = spec.main
    if not isinstance(chosen, int):
        chosen = order[0 if chosen == "predicted" else 1]
    beside = tuple((labels[i], logits[i]) for i in order if i != chosen)
    item = pairs[chosen]
    assert isinstance(item.reading, ClassReadout)
    return replace(item, reading=replace(item.reading, beside=beside))
