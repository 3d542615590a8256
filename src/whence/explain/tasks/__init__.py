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
