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
