"""Ask one library everything, inside its own environment, and print what it answers: one JSON object a line.

    python -m bench.peers.inside ADAPTER STAGE,STAGE '{"classifier": FOLDER, "causal": FOLDER}'

Nothing is judged here: bench/peers/checks.py does that.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from bench.peers import scene
from bench.peers.adapter import Absent, Adapter, Given

Row = dict[str, Any]
KINDS = ("gradient", "integrated", "perturbation")
STEPS = 64  # at which all are compared, beside their own number of steps


def said(failure: BaseException) -> str:
    """Return the first line of an error, with its kind."""
    lines = str(failure).strip().splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0].strip()}".rstrip(": ")[:300]


class Asking:
    """An adapter, a fresh model, and the plain references to both."""

    def __init__(self, kind: type[Adapter], folders: dict[str, str]) -> None:
        self._kind, self._folders, self.causal = kind, folders, kind.causal
        if self.causal and "causal" not in folders:
            raise SystemExit("no language model: ../shared is not there")
        self.folder = folders["causal" if self.causal else "classifier"]
        self.model, self.tokenizer = scene.load(self.folder, self.causal)
        self.texts = scene.PROMPTS[:4] if self.causal else scene.TEXTS

    def again(self) -> Asking:
        """Return the same with a fresh model."""
        return Asking(self._kind, self._folders)

    def adapter(self) -> Adapter:
        """Return the library, ready to explain the model."""
        return self._kind(self.model, self.tokenizer, scene.TARGET)

    def plain(self) -> Any:
        """Return the references."""
        from bench.peers.plain import Plain

        return Plain(self.model, self.tokenizer, scene.TARGET, self.causal)


def methods(asking: Asking) -> Iterator[Row]:
    """Run every method once."""
    own, text = asking.adapter(), asking.texts[0]
    yield {"check": "called", "how": own.called, "names": own.names, "causal": asking.causal}
    yield {"check": "metrics", "names": own.offered()}
    for name in sorted(own.methods(text)):
        try:
            own.methods(text)[name]()
            yield {"check": "method", "method": name, "ok": True}
        except Exception as failure:  # whatever a library raises is a finding about it
            yield {"check": "method", "method": name, "ok": False, "error": said(failure)}
            own = (
                asking.again().adapter()
            )  # what a failure leaves on a model should not fail the next


def _asked(row: Row, ask: Callable[[], Row]) -> Row:
    """Return the row with the answer, with the library's error, or with the words that it has no such thing."""
    try:
        return row | ask()
    except Absent as absent:
        return row | {"absent": str(absent)}
    except Exception as failure:  # whatever a library raises is a finding about it
        return row | {"error": said(failure)}


def right(asking: Asking) -> Iterator[Row]:
    """Ask for what the checks of rightness need."""
    own, plain = asking.adapter(), asking.plain()
    if not own.names:
        return
    additive = "integrated" if "integrated" in own.names else "perturbation"
    wanted = {"explains": own.explains, "baseline": own.baseline}
    truth: dict[str, tuple[list[float], float]] = {}
    if additive == "integrated":
        truth = {text: plain.integrated(text, **wanted) for text in asking.texts}

    def rise(text: str) -> float:
        told = own.rise(text)
        return truth[text][1] if told is None else told

    @cache
    def scores(text: str, steps: int | None) -> Given:
        if additive == "integrated":
            return own.integrated([text], steps)[0]
        return own.perturbation([text])[0]

    def sums(steps: int | None) -> Row:
        if additive == "perturbation" and (steps or own.rise(asking.texts[0]) is None):
            raise Absent("has no steps" if steps else "promises no sum")
        pairs = [[sum(scores(text, steps).scores), rise(text)] for text in asking.texts]
        return {"of": own.names[additive], "sums": pairs, "explains": own.explains}

    def agreement() -> Row:
        if additive == "perturbation":
            raise Absent("no integrated gradients")
        pairs = [[scores(text, STEPS).scores, truth[text][0]] for text in asking.texts]
        return {"of": own.names[additive], "pairs": pairs}

    def signs() -> Row:
        steps = STEPS if additive == "integrated" else None
        special = asking.tokenizer.all_special_tokens
        pairs = []
        for text in asking.texts:
            pairs.append(
                side_by_side(text, scores(text, steps), plain.leave_one_out(text), special)
            )
        return {"of": own.names[additive], "pairs": pairs}

    yield _asked({"check": "completeness", "steps": "own"}, lambda: sums(None))
    yield _asked({"check": "completeness", "steps": STEPS}, lambda: sums(STEPS))
    yield _asked({"check": "agreement"}, agreement)
    yield _asked({"check": "sign"}, signs)
    yield from _lists(asking, own)
    if not asking.causal:
        yield _asked({"check": "repeated"}, lambda: _repeated(own, additive))
        yield _asked({"check": "pair"}, lambda: _pair(own))


def words(given: Given, special: list[str]) -> tuple[list[str], list[float]]:
    """Return the scores without special tokens and the marks of the tokenizer."""
    kept = [
        (token.strip().removeprefix("##").replace("▁", ""), score)
        for token, score in zip(given.tokens, given.scores, strict=True)
        if token.strip() and token.strip() not in special
    ]
    return [token for token, _ in kept], [score for _, score in kept]


def side_by_side(
    text: str, given: Given, falls: list[float], special: list[str]
) -> list[list[float]]:
    """Return the library's scores and the falls of leave-one-out of the same words."""
    tokens, scores = words(given, special)
    if len(tokens) == len(falls):
        return [scores, falls]
    # One score for a word that is there twice: then words that are there once are compared.
    there = text.split()
    alone = [i for i, word in enumerate(there) if there.count(word) == tokens.count(word) == 1]
    return [[scores[tokens.index(there[i])] for i in alone], [falls[i] for i in alone]]


def _lists(asking: Asking, own: Adapter) -> Iterator[Row]:
    if not own.takes_lists:
        yield _asked({"check": "batch"}, lambda: _told(own.several(scene.MIXED)))
        return
    for kind in own.names:
        if kind in KINDS:
            yield _asked(
                {"check": "batch", "kind": kind, "of": own.names[kind]},
                lambda kind=kind: _batch(asking, own, kind),
            )


def _told(answer: Any) -> Row:
    raise Absent(f"a list is taken for one text: {str(answer)[:80]}")


def _batch(asking: Asking, own: Adapter, kind: str) -> Row:
    explain = getattr(own, kind)
    texts = list(scene.PROMPTS[1:4] if asking.causal else scene.MIXED)
    together = explain(texts)
    if len(together) != len(texts):
        raise Absent(f"{len(texts)} texts give {len(together)} explanations")
    off, size = 0.0, 0.0
    for text, one in zip(texts, together, strict=True):
        (alone,) = explain([text])
        if len(alone.scores) > len(one.scores):
            raise Absent("a text in a list has fewer scores than alone")
        # A library may score the padding, too; that counts as it would in a sum.
        own_scores = alone.scores + [0.0] * (len(one.scores) - len(alone.scores))
        off = max(off, *(abs(a - b) for a, b in zip(own_scores, one.scores, strict=True)))
        size = max(size, *(abs(score) for score in alone.scores))
    return {"off": off, "size": size, "texts": len(texts)}


def _repeated(own: Adapter, kind: str) -> Row:
    text, word, times = scene.REPEATED
    (given,) = getattr(own, kind)([text])
    kept = sum(token.strip() == word for token in given.tokens)
    return {"of": own.names[kind], "word": word, "times": times, "scores": kept}


def _pair(own: Adapter) -> Row:
    given = own.pair(*scene.PAIR)
    row = {"texts": list(scene.PAIR), "tokens": given.tokens, "segments": given.segments}
    return row | ({"remark": given.remark} if given.remark else {})


def found(asking: Asking) -> Iterator[Row]:
    """Compare the model before and after explaining, after a failure inside it, and after a wrong target."""
    from bench.peers.found import Injected, changed, failing, state

    text = asking.texts[0]
    # Asked for hidden states, transformers puts hooks of its own on a model and leaves them: they count for nobody.
    asking.model(
        asking.tokenizer(text, return_tensors="pt")["input_ids"], output_hidden_states=True
    )
    before = state(asking.model, asking.tokenizer, text)
    own = asking.adapter()
    kinds = [kind for kind in KINDS if kind in own.names]
    if not kinds:
        return

    def after() -> list[str]:
        return changed(before, state(asking.model, asking.tokenizer, text))

    failed = []
    for kind in kinds:
        try:
            getattr(own, kind)([text])
        except Exception as failure:  # whatever a library raises is a finding about it
            failed.append(said(failure))
    yield {"check": "found", "after": "explaining", "changed": after(), "errors": failed}
    reached = []
    for kind in kinds:
        handle = failing(asking.model)
        try:
            getattr(own, kind)([text])
            reached.append("nothing")
        except Injected:
            reached.append("the failure")
        except Exception as failure:  # whatever a library raises is a finding about it
            reached.append(said(failure))
        finally:
            handle.remove()
    yield {"check": "found", "after": "a failure", "changed": after(), "raised": reached}
    row = _asked({"check": "wrong target"}, lambda: {"answer": str(own.wrong(text))[:80]})
    yield row
    if "absent" not in row:
        yield {"check": "found", "after": "a wrong target", "changed": after()}


def costs(asking: Asking) -> Iterator[Row]:
    """Measure time and memory."""
    from bench.peers.cost import memory, times

    yield from times(asking)
    yield from memory(asking)


STAGES = {"methods": methods, "right": right, "found": found, "costs": costs}


def tried(stage: str, kind: type[Adapter], folders: dict[str, str]) -> Iterator[Row]:
    """Run a stage on a fresh model; where it breaks off, say so."""
    try:
        yield from STAGES[stage](Asking(kind, folders))
    except Exception as failure:  # whatever a library raises is a finding about it
        yield {"check": "stage", "ok": False, "error": said(failure)}


def main() -> None:
    """Run some stages; what the library prints itself goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    warnings.simplefilter("ignore")
    name, stages, folders = sys.argv[1:4]

    import torch

    torch.set_num_threads(1)
    kind = import_module(f"bench.peers.adapters.{name}").Own
    for stage in stages.split(","):
        for row in tried(stage, kind, json.loads(folders)):
            out.write(json.dumps({"stage": stage} | row) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
