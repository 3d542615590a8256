"""Whether the sign of an explanation's strongest word holds: the word is taken away, and the model asked once more.

Signs of attribution methods often contradict what happens without a word. On a short text that can be known for the
price of a forward pass, when an explanation is shown.
"""

from typing import TYPE_CHECKING

import torch

from whence.capture import Ask, Targets, TargetSpec
from whence.data import collate
from whence.data.removal import removable, resolve
from whence.explainer.sharing import Sharing

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer
    from whence.explainer.explanation import Explanation

CODE = "sign"
# In a longer text one word of many hardly moves the prediction, and a sign that is wrong misleads about little.
_SHORT = 64  # words
# A forward pass of some dozen layers is good to a few tens of units in the last place, and so are its probabilities:
# what differs by less may be the same.
_ROUNDING = 100


def doubted_sign(explainer: "Explainer", explanation: "Explanation") -> tuple[str, str] | None:
    """Say, with a code, that the strongest word's sign is contradicted, if it is."""
    try:
        return _doubted(explainer, explanation)
    except (
        Exception
    ):  # a remark on what is shown: that it cannot be made is no reason not to show it
        return None


def _doubted(explainer: "Explainer", explanation: "Explanation") -> tuple[str, str] | None:
    """Say that taking the strongest word away moves the target's probability against the word's sign, if it does.

    That is asked of classifiers of texts, as leave_one_out asks it. Of a contrast it is the difference of both
    probabilities. What was measured on whole words is not measured again.
    """
    loaded, item = explainer.loaded, explanation.item
    own = item is None or item.picture is not None or item.reading is not None or bool(item.labels)
    if own or item is None or loaded.task not in ("single_label", "multi_label"):
        return None
    words = explanation.word_scores
    if not explanation.signed or explanation.measured is not None or not 0 < len(words) <= _SHORT:
        return None
    place = int(abs(words).argmax())
    score, word = float(words[place]), explanation.spans[place]
    free = set(removable(item, loaded.anchors))
    hole = [token for token in word.tokens if token in free]
    if not score or not hole:
        return None
    target = explanation.target
    against = None if target.against is None else target.against.index
    spec = TargetSpec(target.index, against, "probability")
    logits = torch.tensor([explanation.prediction.logits], dtype=loaded.dtype, device=loaded.device)
    ask = Ask(
        loaded.model,
        collate([item], pad_id=loaded.pad_id, device=loaded.device),
        logits,
        Targets(*spec.resolve(logits), spec, loaded.task),
        fillers=loaded.fillers,
        anchors=loaded.anchors,
        pad_id=loaded.pad_id,
        policy=Sharing(loaded).policy([item], tests=True),
        infiller=loaded.infiller,
        checkpoint=loaded.checkpoint,
    )
    (found,) = ask.without([[(), hole]], resolve(None, ask.fillers))
    whole, without = (float(value) for value in found)
    noise = _ROUNDING * ask.eps
    # A model that was trained on since says something else of the whole text: then this is another model.
    if abs(whole - float(ask.base())) > noise or abs(whole - without) <= noise:
        return None
    if (score > 0) == (whole > without):
        return None
    side = "for" if score > 0 else "against"
    moves = "falls" if whole > without else "rises"
    said = (
        f"{explanation.method} has {word.text!r} {side} {target} ({score:+.3g}), but without it "
        f"{_named(explanation)} {moves} from {_both(whole, without)}"
    )
    return CODE, f"{said}: do not trust the sign; leave_one_out measures it."


def _named(explanation: "Explanation") -> str:
    target = explanation.target
    if target.against is None:
        return target.label
    return f"the lead of {target.label} over {target.against.label}"


def _both(whole: float, without: float) -> str:
    """Write two probabilities with as many figures as tell them apart."""
    for figures in range(1, 8):
        said = [f"{100 * value:.{figures}f} %" for value in (whole, without)]
        if said[0] != said[1]:
            break
    return " to ".join(said)
