"""What is explained about an input: what a user asked about the model's answer, made a reading of its outputs.

A classifier's labels are its outputs, and nothing need be read. For every other task, one file here says what can be
asked and how it is read; see `whence.data.reading`. What is asked is the first output of such an input, what it is
held against the second.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from whence.capture import TargetSpec
from whence.core.errors import BadParameter
from whence.core.types import Of
from whence.data import Encoded
from whence.explainer.aims.pairing import with_pairing
from whence.explainer.request import Request
from whence.models import Loaded

if TYPE_CHECKING:
    from whence.explainer.explanation import Explanation


class About(TypedDict, total=False):
    """What can be asked beside the target, as keywords; which of them means something, the model decides."""

    at: Any  # which token, word or mask
    answer: Any  # what a language model might go on with: a text, or a tuple of two to hold against each other
    labels: Sequence[str] | None  # to choose from, where the model can be given labels
    template: str | None  # the sentence that such a label is put in
    image: Any  # that a text is held against


@dataclass(frozen=True)
class Asked:
    """What was asked about a model's answer, before it has given one; see `About`."""

    target: Any = None
    of: Of = "logit"
    truncate: bool = False
    at: Any = None
    answer: Any = None
    labels: Sequence[str] | None = None
    template: str | None = None
    image: Any = None

    @property
    def reads(self) -> bool:
        """Whether the input is a text, of a model that takes pictures as well."""
        return self.image is not None


@dataclass(frozen=True)
class Aimed:
    """Inputs with what is explained about each of them."""

    items: list[Encoded]
    spec: TargetSpec
    # Where one input became several (a text and each of its entities): whose each of them is. None: as they were.
    owners: tuple[int, ...] | None = None
    # Makes one explanation of those of an input, where it is not a list of them that was asked for.
    join: "Callable[[list[Explanation]], Explanation] | None" = None
    forwards: int = 0  # how often each input was run to find out what there is to explain


Aim = Callable[[Loaded, list[Encoded], Asked], Aimed]


def aim(loaded: Loaded, items: list[Encoded], asked: Asked) -> Aimed:
    """Return the inputs with readings, where the task needs them, and what is explained of all of them."""
    parts = by_target(asked, len(items))
    if len(parts) > 1:
        raise BadParameter(
            f"Here all inputs have one target, and {len(parts)} different ones are listed for {len(items)} inputs. "
            "Give one target, or call it for each input."
        )
    ((_, asked),) = parts
    if loaded.classifies and asked.labels is None:
        _refuse(asked, ("at", "answer", "template", "image"), loaded)
        items = [with_pairing(item, loaded) for item in items]
        return Aimed(items, TargetSpec.parse(asked.target, loaded.labels, asked.of))
    return _aim_of(loaded, asked)(loaded, items, asked)


def by_target(asked: Asked, count: int) -> list[tuple[list[int], Asked]]:
    """Return the numbers of the inputs that share a target and an answer, with what is asked about them.

    A list of targets, or of answers, is one for each input.
    """
    targets = one_each("target", asked.target, count)
    answers = one_each("answer", asked.answer, count)
    if targets is None and answers is None:
        return [(list(range(count)), asked)]
    parts: dict[str, tuple[list[int], Asked]] = {}
    for number in range(count):
        target = asked.target if targets is None else targets[number]
        answer = asked.answer if answers is None else answers[number]
        own = replace(asked, target=target, answer=answer)
        parts.setdefault(repr((target, answer)), ([], own))[0].append(number)
    # Of no inputs nothing is asked.
    return list(parts.values()) or [([], replace(asked, target=None, answer=None))]


def one_each(name: str, given: Any, count: int) -> list[Any] | None:
    """Return the targets, or answers, that are listed one for each input; None where it is one for all of them."""
    if not isinstance(given, list):
        if isinstance(given, str | tuple) or not getattr(given, "ndim", 0):
            return None
        given = given.tolist()  # a column of a table, an array
    lists = [one for one in given if isinstance(one, list)]
    if len(given) != count or lists:
        what = f"{name} is a list of {len(given)}, one for each input, and there {_are(count)}"
        what = f"{name} has the list {lists[0]!r} in it" if lists else what
        raise BadParameter(
            f"{what}. Give a list of as many as there are inputs, or one {name} for all of them; a contrast of two "
            f"is a tuple: {name}=('a', 'b')."
        )
    return list(given)


def _are(count: int) -> str:
    return "is 1 input" if count == 1 else f"are {count} inputs"


def _aim_of(loaded: Loaded, asked: Asked) -> Aim:
    """Return what aims for a task; imported when it is needed, as few people need more than one."""
    if loaded.classifies:
        from whence.explainer.aims.zero_shot import zero_shot

        _refuse(asked, ("at", "answer", "image"), loaded)
        return zero_shot
    match loaded.task:
        case "answer":
            from whence.explainer.aims.answer import answer

            _refuse(asked, ("at", "answer", "labels", "template", "image"), loaded)
            return answer
        case "tags":
            from whence.explainer.aims.tags import tags

            _refuse(asked, ("answer", "labels", "template", "image"), loaded)
            return tags
        case "mask":
            from whence.explainer.aims.mask import mask

            _refuse(asked, ("answer", "labels", "template", "image"), loaded)
            return mask
        case "similarity":
            from whence.explainer.aims.similarity import similarity

            _refuse(asked, ("at", "answer"), loaded)
            return similarity
        case _:
            from whence.explainer.aims.next import following

            _refuse(asked, ("at", "labels", "template", "image"), loaded)
            return following


def shaped(
    aimed: Aimed,
    results: Sequence[Mapping[str, "Explanation"]],
    asked: Sequence[Request],
    method: str | Sequence[str],
) -> list[Any]:
    """Return the explanations of inputs that became several: a list for each input, or what joins them."""
    assert aimed.owners is not None
    lists: list[Any] = []
    for owner in range(max(aimed.owners) + 1):
        own = [one for one, whose in zip(results, aimed.owners, strict=True) if whose == owner]
        by_name: dict[str, Any] = {}
        for request in asked:
            found = [one[request.name] for one in own]
            by_name[request.name] = aimed.join(found) if aimed.join else found
        if isinstance(method, str):
            lists.append(by_name[asked[0].name])
        elif aimed.join:
            lists.append(by_name)
        else:
            lists.append([dict(one) for one in own])
    return lists


def _refuse(asked: Asked, names: tuple[str, ...], loaded: Loaded) -> None:
    """Refuse what this model cannot be asked."""
    for name in names:
        value = getattr(asked, name)
        if value is not None:
            raise BadParameter(
                f"{name}={str(value)[:40]!r} means nothing to {type(loaded.model).__name__} "
                f"({loaded.task.replace('_', ' ')}). Leave it out."
            )


"""What is explained of each input of a data set: one thing, and one input that has none does not stop the others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from whence.core.errors import WhenceError
from whence.data import Encoded
from whence.explainer.aims import Aimed, Asked, aim, by_target
from whence.models import Loaded

# Told of an input that failed: its number, the method, if it was that, and why.
Failed = Callable[[int, str | None, WhenceError], None]


@dataclass(frozen=True)
class Inputs:
    """The inputs of a data set that could be taken, by their numbers in it, and how many were given."""

    numbers: list[int]
    items: list[Encoded]
    given: int


def aim_each(
    loaded: Loaded, inputs: Inputs, asked: Asked, failed: Failed | None
) -> Iterator[tuple[list[int], Aimed]]:
    """Yield the inputs that can be read, by their numbers, with what is explained of each; one target at a time.

    Of several things that could be explained of an input, a tagger's entities, it is the first. With `failed`, what
    cannot be read is reported there.
    """
    items = dict(zip(inputs.numbers, inputs.items, strict=True))
    for rows, own in by_target(asked, inputs.given):
        numbers = [row for row in rows if row in items]
        kept, aimed = _aim_some(loaded, [items[row] for row in numbers], numbers, own, failed)
        if aimed is not None:
            yield kept, aimed


def _aim_some(
    loaded: Loaded,
    items: list[Encoded],
    numbers: Sequence[int],
    asked: Asked,
    failed: Failed | None,
) -> tuple[list[int], Aimed | None]:
    if not items:
        return [], None
    try:
        return _first(aim(loaded, items, asked), numbers)
    except WhenceError:
        if failed is None:
            raise
    kept: list[int] = []
    found: list[Aimed] = []
    for number, item in zip(numbers, items, strict=True):
        try:
            own, aimed = _first(aim(loaded, [item], asked), [number])
        except WhenceError as error:
            failed(number, None, error)
            continue
        kept += own
        found.append(aimed)
    if not found:
        return [], None
    # What was asked is the same for all of them, and so is the target; only the inputs differ.
    return kept, replace(found[0], items=[item for one in found for item in one.items])


def _first(aimed: Aimed, numbers: Sequence[int]) -> tuple[list[int], Aimed]:
    if aimed.owners is None:
        return list(numbers), aimed
    firsts: dict[int, Encoded] = {}
    for owner, item in zip(aimed.owners, aimed.items, strict=True):
        firsts.setdefault(owner, item)
    kept = [numbers[owner] for owner in firsts]
    return kept, replace(aimed, items=list(firsts.values()), owners=None)


"""What a model gives for every token, before anybody has chosen what to read of it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from whence.capture.forward import bare_logits, run_alone
from whence.capture.found import as_found
from whence.capture.memory.fitting import fitting_batches
from whence.capture.memory.probe import Said, capacity
from whence.capture.target import finite
from whence.core.errors import NoHead
from whence.data import Batch, Encoded, Policy, collate
from whence.models import Loaded

_INPUTS, _CELLS = 64, 1024  # of one batch: a vocabulary is wide
_SEVERAL = 4  # lengths: from here on it pays to find out, in three passes, whether they may mix


def outputs(loaded: Loaded, items: Sequence[Encoded], *names: str) -> list[tuple[Tensor, ...]]:
    """Run the model forward once on each input; return what it gives under these names, each (tokens, ...).

    In float64, on the CPU.
    """
    found: list[tuple[Tensor, ...]] = [()] * len(items)

    def made(batch: Batch) -> list[Tensor]:
        with as_found(loaded.model), torch.inference_mode():
            given = run_alone(loaded.model, batch)
        return [_part(given, name, loaded) for name in names]

    def said(batch: Batch) -> Tensor:
        return made(batch)[0][:, : len(batch.items[0])]

    def keep(chosen: Sequence[int], batch: Batch) -> None:
        parts = made(batch)
        for row, i in enumerate(chosen):
            found[i] = tuple(part[row, : len(items[i])] for part in parts)

    _in_batches(loaded, items, keep, said)
    return found


def logits(loaded: Loaded, items: Sequence[Encoded]) -> list[Tensor]:
    """Run the model forward once on each input; return its logits, as read, (labels,), in float64 on the CPU."""
    found = [torch.empty(0)] * len(items)

    def keep(chosen: Sequence[int], batch: Batch) -> None:
        for i, row in zip(chosen, bare_logits(loaded.model, batch).double().cpu(), strict=True):
            found[i] = row

    _in_batches(loaded, items, keep)
    return found


def _in_batches(
    loaded: Loaded,
    items: Sequence[Encoded],
    do: Callable[[Sequence[int], Batch], None],
    said: Said | None = None,
) -> None:
    """Do something with batches, and whose they are; `said` is what is read of one, if not the logits."""
    work = fitting_batches(loaded.model, "outputs", items, _policy(loaded, items, said))
    for chosen in work:
        with work.trying(chosen):
            some = [items[i] for i in chosen]
            do(chosen, collate(some, pad_id=loaded.pad_id, device=loaded.device))


def _policy(loaded: Loaded, items: Sequence[Encoded], said: Said | None) -> Policy:
    """Return what may share a batch: lengths are mixed where there are several of them, and padding is neutral.

    A model without a padding token takes one at a time.
    """
    alone = getattr(loaded.model.config, "pad_token_id", None) is None
    if alone or len({len(item) for item in items}) < _SEVERAL:
        return Policy(1 if alone else _INPUTS, _CELLS, False, loaded.anchors)
    found = capacity(
        loaded.model,
        items,
        pad_id=loaded.pad_id,
        device=loaded.device,
        max_length=loaded.max_length,
        said=said,
    )
    size = 1 if found == "single" else _INPUTS
    return Policy(size, _CELLS, found == "mixed", loaded.anchors)


def _part(given: object, name: str, loaded: Loaded) -> Tensor:
    part = getattr(given, name, None)
    if not isinstance(part, Tensor) or part.dim() < 2:
        raise NoHead(
            f"{type(loaded.model).__name__} gives no {name.replace('_', ' ')}, as a model of its name should. "
            "Load a model of transformers' own, or one that gives the same."
        )
    return finite(part, name.replace("_", " ")).double().cpu()


"""One text or two: a warning where a classifier was trained on the other, as far as that can be known.

Nothing in a model's files says what an input was in training. The names of its labels do, where they are those of a
relation between two texts, or of a mood that one text has, and so does the GLUE task that older configurations name.
That a model knows one kind of token only (`type_vocab_size` of 1) says nothing: RoBERTa reads pairs without.
"""

import re
from dataclasses import replace

from whence.data import Encoded
from whence.models import Loaded

# Labels of a relation that a second text has to a first. Of entailment one is enough; the others are words that a
# single text may be sorted by as well (an issue is a "duplicate"), unless all labels are of the kind.
_FOLLOWS = re.compile(r"(not|non)?[ _-]*(entail|contradict)", re.IGNORECASE)
_SAME = re.compile(r"(is|not|non|no)?[ _-]*(equivalent|duplicate|paraphrase)", re.IGNORECASE)
# Labels of a mood: polarity, stars.
_MOOD = re.compile(
    r"(very|strongly|slightly|mostly)?[ _-]*(positive|negative|neutral|mixed|pos|neg)|[1-5][ _-]*stars?",
    re.IGNORECASE,
)
_PAIR_TASKS = frozenset(
    {"mnli", "snli", "xnli", "anli", "rte", "qnli", "wnli", "cb", "mrpc", "qqp", "stsb", "paws"}
)
_SINGLE_TASKS = frozenset({"sst2", "sst", "cola", "imdb"})


def with_pairing(item: Encoded, loaded: Loaded) -> Encoded:
    """Return an input that warns of being one text where the model reads two, or two where it reads one."""
    if item.source.text is None:
        return item
    pair = item.source.pair is not None
    warning = pairing_warning(loaded, pair=pair, together=_together(item) if pair else None)
    return item if warning is None else replace(item, warnings=(*item.warnings, warning))


def pairing_warning(
    loaded: Loaded, *, pair: bool, together: str | None = None
) -> tuple[str, str] | None:
    """Return the warning, with its code, for single texts or pairs given to this model; None where nothing tells."""
    name = type(loaded.model).__name__
    if not pair:
        why = why_pairs(loaded)
        if why is None:
            return None
        return "one-text", (
            f"{name} seems to be trained on pairs of texts ({why}), and this is a single one: what it says of it "
            "means little. Give the pair: (premise, hypothesis) or the like; --pair."
        )
    why = together or _why_singles(loaded)
    if why is None:
        return None
    return "two-texts", (
        f"{name} seems to be trained on single texts ({why}), and this is a pair: what it says of it may mean "
        "little. Give one text, unless it was trained on pairs."
    )


def why_pairs(loaded: Loaded) -> str | None:
    """Return what tells that a classifier was trained on pairs of texts; None where nothing does."""
    if loaded.task not in ("single_label", "regression"):
        return None
    labels = loaded.labels
    related = [label for label in labels if _FOLLOWS.match(label)]
    if not related and len(labels) > 1 and all(_SAME.match(label) for label in labels):
        related = list(labels)
    if related:
        return f"its labels are {', '.join(labels[:4])}"
    return _trained(loaded, _PAIR_TASKS)


def _why_singles(loaded: Loaded) -> str | None:
    labels = loaded.labels
    if loaded.task == "single_label" and all(_MOOD.fullmatch(label) for label in labels):
        return f"its labels are {', '.join(labels[:5])}"
    return _trained(loaded, _SINGLE_TASKS)


def _trained(loaded: Loaded, tasks: frozenset[str]) -> str | None:
    task = getattr(loaded.model.config, "finetuning_task", None)
    known = isinstance(task, str) and re.sub("[^a-z0-9]", "", task.lower()) in tasks
    return f"its configuration names the task {task!r}" if known else None


def _together(item: Encoded) -> str | None:
    """Return that nothing stands between two texts, where that is so."""
    second = next((i for i, t in enumerate(item.tokens) if t.segment and not t.special), 0)
    apart = second == 0 or item.tokens[second - 1].special
    return None if apart else "its tokenizer puts nothing between two texts"
