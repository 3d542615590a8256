"""Stages run in a library's own environment: methods, answers, model state, costs; rows printed as JSON.

    python -m bench.peers.stages ADAPTER STAGE,STAGE '{"classifier": FOLDER, "causal": FOLDER}'

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

from bench.peers import fixtures
from bench.peers.adapter import Absent, Adapter, TokenScores

Row = dict[str, Any]
KINDS = ("gradient", "integrated", "perturbation")
STEPS = 64  # at which all are compared, beside their own number of steps


def format_error(failure: BaseException) -> str:
    """Return the first line of an error, with its type."""
    lines = str(failure).strip().splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0].strip()}".rstrip(": ")[:300]


class LibrarySession:
    """An adapter's class with a fresh model and its reference."""

    def __init__(self, kind: type[Adapter], folders: dict[str, str]) -> None:
        self._kind, self._folders, self.causal = kind, folders, kind.causal
        if self.causal and "causal" not in folders:
            raise SystemExit("no language model: ../shared is not there")
        self.folder = folders["causal" if self.causal else "classifier"]
        self.model, self.tokenizer = fixtures.load_model(self.folder, self.causal)
        self.texts = fixtures.PROMPTS[:4] if self.causal else fixtures.TEXTS

    def renew(self) -> LibrarySession:
        """Return the same session with a fresh model."""
        return LibrarySession(self._kind, self._folders)

    def build_adapter(self) -> Adapter:
        """Return the adapter of the model."""
        return self._kind(self.model, self.tokenizer, fixtures.TARGET)

    def build_reference(self) -> Any:
        """Return the reference implementations of the model."""
        from bench.peers.reference import ReferenceModel

        return ReferenceModel(self.model, self.tokenizer, fixtures.TARGET, self.causal)


def run_methods(asking: LibrarySession) -> Iterator[Row]:
    """Run every method once."""
    own, text = asking.build_adapter(), asking.texts[0]
    yield {"check": "called", "how": own.called, "names": own.names, "causal": asking.causal}
    yield {"check": "metrics", "names": own.list_metrics()}
    for name in sorted(own.list_methods(text)):
        try:
            own.list_methods(text)[name]()
            yield {"check": "method", "method": name, "ok": True}
        except Exception as failure:  # whatever a library raises is a finding about it
            yield {"check": "method", "method": name, "ok": False, "error": format_error(failure)}
            own = (
                asking.renew().build_adapter()
            )  # what a failure leaves on a model should not fail the next


def _ask(row: Row, ask: Callable[[], Row]) -> Row:
    """Return the row with the answer, with the library's error, or with the absence of the feature."""
    try:
        return row | ask()
    except Absent as absent:
        return row | {"absent": str(absent)}
    except Exception as failure:  # whatever a library raises is a finding about it
        return row | {"error": format_error(failure)}


def collect_answers(asking: LibrarySession) -> Iterator[Row]:
    """Yield the rows that the checks of correctness need."""
    own, plain = asking.build_adapter(), asking.build_reference()
    if not own.names:
        return
    additive = "integrated" if "integrated" in own.names else "perturbation"
    wanted = {"explains": own.explains, "baseline": own.baseline}
    truth: dict[str, tuple[list[float], float]] = {}
    if additive == "integrated":
        truth = {text: plain.integrate_gradients(text, **wanted) for text in asking.texts}

    def compute_rise(text: str) -> float:
        told = own.compute_rise(text)
        return truth[text][1] if told is None else told

    @cache
    def compute_scores(text: str, steps: int | None) -> TokenScores:
        if additive == "integrated":
            return own.integrate_gradients([text], steps)[0]
        return own.explain_by_perturbation([text])[0]

    def collect_sums(steps: int | None) -> Row:
        if additive == "perturbation" and (steps or own.compute_rise(asking.texts[0]) is None):
            raise Absent("has no steps" if steps else "promises no sum")
        pairs = [
            [sum(compute_scores(text, steps).scores), compute_rise(text)] for text in asking.texts
        ]
        return {"of": own.names[additive], "sums": pairs, "explains": own.explains}

    def collect_agreement() -> Row:
        if additive == "perturbation":
            raise Absent("no integrated gradients")
        pairs = [[compute_scores(text, STEPS).scores, truth[text][0]] for text in asking.texts]
        return {"of": own.names[additive], "pairs": pairs}

    def collect_signs() -> Row:
        steps = STEPS if additive == "integrated" else None
        special = asking.tokenizer.all_special_tokens
        pairs = []
        for text in asking.texts:
            pairs.append(
                align_scores(text, compute_scores(text, steps), plain.leave_one_out(text), special)
            )
        return {"of": own.names[additive], "pairs": pairs}

    yield _ask({"check": "completeness", "steps": "own"}, lambda: collect_sums(None))
    yield _ask({"check": "completeness", "steps": STEPS}, lambda: collect_sums(STEPS))
    yield _ask({"check": "agreement"}, collect_agreement)
    yield _ask({"check": "sign"}, collect_signs)
    yield from _ask_lists(asking, own)
    if not asking.causal:
        yield _ask({"check": "repeated"}, lambda: _count_repeated(own, additive))
        yield _ask({"check": "pair"}, lambda: _ask_pair(own))


def strip_special_tokens(given: TokenScores, special: list[str]) -> tuple[list[str], list[float]]:
    """Return words and scores without special tokens and the tokenizer's marks."""
    kept = [
        (token.strip().removeprefix("##").replace("▁", ""), score)
        for token, score in zip(given.tokens, given.scores, strict=True)
        if token.strip() and token.strip() not in special
    ]
    return [token for token, _ in kept], [score for _, score in kept]


def align_scores(
    text: str, given: TokenScores, falls: list[float], special: list[str]
) -> list[list[float]]:
    """Return the library's scores and leave-one-out's falls of the same words."""
    tokens, scores = strip_special_tokens(given, special)
    if len(tokens) == len(falls):
        return [scores, falls]
    # Some libraries score a repeated word once: then only words that occur once are compared.
    there = text.split()
    alone = [i for i, word in enumerate(there) if there.count(word) == tokens.count(word) == 1]
    return [[scores[tokens.index(there[i])] for i in alone], [falls[i] for i in alone]]


def _ask_lists(asking: LibrarySession, own: Adapter) -> Iterator[Row]:
    if not own.takes_lists:
        yield _ask(
            {"check": "batch"}, lambda: _reject_joined_list(own.explain_list(fixtures.MIXED))
        )
        return
    for kind in own.names:
        if kind in KINDS:
            yield _ask(
                {"check": "batch", "kind": kind, "of": own.names[kind]},
                lambda kind=kind: _compare_batch(asking, own, kind),
            )


def _reject_joined_list(answer: Any) -> Row:
    raise Absent(f"a list is taken for one text: {str(answer)[:80]}")


def _compare_batch(asking: LibrarySession, own: Adapter, kind: str) -> Row:
    explain = own.get_explainer(kind)
    texts = list(fixtures.PROMPTS[1:4] if asking.causal else fixtures.MIXED)
    together = explain(texts)
    if len(together) != len(texts):
        raise Absent(f"{len(texts)} texts give {len(together)} explanations")
    off, size = 0.0, 0.0
    for text, one in zip(texts, together, strict=True):
        (alone,) = explain([text])
        if len(alone.scores) > len(one.scores):
            raise Absent("a text in a list has fewer scores than alone")
        # Scores of padding count, as they would in a sum.
        own_scores = alone.scores + [0.0] * (len(one.scores) - len(alone.scores))
        off = max(off, *(abs(a - b) for a, b in zip(own_scores, one.scores, strict=True)))
        size = max(size, *(abs(score) for score in alone.scores))
    return {"off": off, "size": size, "texts": len(texts)}


def _count_repeated(own: Adapter, kind: str) -> Row:
    text, word, times = fixtures.REPEATED
    (given,) = own.get_explainer(kind)([text])
    kept = sum(token.strip() == word for token in given.tokens)
    return {"of": own.names[kind], "word": word, "times": times, "scores": kept}


def _ask_pair(own: Adapter) -> Row:
    given = own.explain_pair(*fixtures.PAIR)
    row = {"texts": list(fixtures.PAIR), "tokens": given.tokens, "segments": given.segments}
    return row | ({"remark": given.remark} if given.remark else {})


def compare_states(asking: LibrarySession) -> Iterator[Row]:
    """Compare the model before and after explaining, after a failure inside it, and after a wrong target."""
    from bench.peers.model_state import Injected, inject_failure, list_changes, record_state

    text = asking.texts[0]
    # transformers itself leaves hooks on a model once hidden states are requested: they must not count as changes.
    asking.model(
        asking.tokenizer(text, return_tensors="pt")["input_ids"], output_hidden_states=True
    )
    before = record_state(asking.model, asking.tokenizer, text)
    own = asking.build_adapter()
    kinds = [kind for kind in KINDS if kind in own.names]
    if not kinds:
        return

    def list_changes_now() -> list[str]:
        return list_changes(before, record_state(asking.model, asking.tokenizer, text))

    failed = []
    for kind in kinds:
        try:
            own.get_explainer(kind)([text])
        except Exception as failure:  # whatever a library raises is a finding about it
            failed.append(format_error(failure))
    yield {"check": "found", "after": "explaining", "changed": list_changes_now(), "errors": failed}
    reached = []
    for kind in kinds:
        handle = inject_failure(asking.model)
        try:
            own.get_explainer(kind)([text])
            reached.append("nothing")
        except Injected:
            reached.append("the failure")
        except Exception as failure:  # whatever a library raises is a finding about it
            reached.append(format_error(failure))
        finally:
            handle.remove()
    yield {"check": "found", "after": "a failure", "changed": list_changes_now(), "raised": reached}
    row = _ask(
        {"check": "wrong target"}, lambda: {"answer": str(own.explain_wrong_target(text))[:80]}
    )
    yield row
    if "absent" not in row:
        yield {"check": "found", "after": "a wrong target", "changed": list_changes_now()}


def measure_costs(asking: LibrarySession) -> Iterator[Row]:
    """Measure time and memory."""
    from bench.peers.cost import measure_memory, measure_times

    yield from measure_times(asking)
    yield from measure_memory(asking)


STAGES = {
    "methods": run_methods,
    "right": collect_answers,
    "found": compare_states,
    "costs": measure_costs,
}


def run_stage(stage: str, kind: type[Adapter], folders: dict[str, str]) -> Iterator[Row]:
    """Run a stage on a fresh model; an error becomes its last row."""
    try:
        yield from STAGES[stage](LibrarySession(kind, folders))
    except Exception as failure:  # whatever a library raises is a finding about it
        yield {"check": "stage", "ok": False, "error": format_error(failure)}


def main() -> None:
    """Run some stages; the library's own output goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    warnings.simplefilter("ignore")
    name, stages, folders = sys.argv[1:4]

    import torch

    torch.set_num_threads(1)
    kind = import_module(f"bench.peers.adapters.{name}").LibraryAdapter
    for stage in stages.split(","):
        for row in run_stage(stage, kind, json.loads(folders)):
            out.write(json.dumps({"stage": stage} | row) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
