"""MethodRequest: a method with checked parameters; methods by name; the default method of each kind of model.

Under a causal mask all tokens see the first ones; attcat averages over queries and favours them, so causal
models have generic_attention as their default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadParameter, UnknownMethod
from whence.core.registry import Entry, resolve_entries
from whence.core.types import OutputScale
from whence.data.removal import count_passes_per_removal
from whence.explain.word_scores import WordAggregation
from whence.methods import method
from whence.models.model import LoadedModel
from whence.tracing.trace import GRADIENTS

DEFAULTS = ("attcat", "generic_attention")  # for texts, of bidirectional and of causal models
# Names a model's default method where an empty value means "no method".
DEFAULT_OF_MODEL = "default"


def choose_default_method(loaded: LoadedModel, picture: bool, causal: bool) -> str:
    """Return the default method of a model; for images, docs/science/shapes.md has the reasons."""
    if not picture:
        return DEFAULTS[causal]
    # Attention within windows (Swin) gives no map over the whole picture.
    windows = getattr(loaded.model.config, "window_size", None) is not None
    return "leave_one_out" if windows else "generic_attention"


@dataclass(frozen=True)
class MethodRequest:
    """One method to run, with all of its parameters."""

    entry: Entry
    params: dict[str, Any]
    reads: bool  # True: a trace method, which reads the shared trace; False: a query method
    name: str
    needs: frozenset[str]  # parts of the trace that it reads
    backwards: int  # backward passes that the trace takes for it, 0 or 1
    of: OutputScale | None  # the scale it always explains; None: the requested
    is_signed: bool  # whether its scores can be negative
    measures_words: bool  # whether it can measure whole words
    words: WordAggregation  # how word scores are made of those of tokens

    def extra_forwards(self, tokens: int, pieced: int = 0) -> int:
        """Return the forward passes of a query method for `tokens` tokens and `pieced` longer words."""
        calls = self.entry.facts.get("calls")
        per_removal = count_passes_per_removal(self.params.get("remove"))
        words = pieced if self.measures_words else 0
        return (int(calls(tokens, self.params)) + words) * per_removal if calls else 0


def resolve_methods(
    names: str | Sequence[str],
    params: Mapping[str, Any] | None,
    fillers: Mapping[str, int],
    *,
    from_text: bool = False,
) -> list[MethodRequest]:
    """Look up methods by name and check their parameters.

    With several methods, `params` maps a method's name to its parameters, or names parameters that go to
    every method that has them. "preset" picks a named setting of a method; other given values override it.
    """
    if not isinstance(names, str | Sequence) or not all(isinstance(name, str) for name in names):
        raise UnknownMethod(f"method must be a name or a list of names. Got {names!r}.")
    unique = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    if not unique:
        raise UnknownMethod(f"No method was asked for. Known: {', '.join(method.names())}.")
    result = []
    for entry, values in resolve_entries(method, unique, params, from_text=from_text):
        facts, reads = entry.facts, entry.takes == "trace"
        values = facts["settle"](values, fillers) if "settle" in facts else values
        needs = frozenset[str](facts["needs"] if reads else ())
        result.append(
            MethodRequest(
                entry,
                values,
                reads,
                name=entry.name,
                needs=needs,
                backwards=int(bool(needs & GRADIENTS)),
                of=facts.get("of"),
                is_signed=bool(
                    facts["signed_when"](values) if "signed_when" in facts else facts["signed"]
                ),
                measures_words="measure_words" in facts,
                words=facts.get("words", "sum"),
            )
        )
    return result


def check_default_parameters(params: Mapping[str, Any], fillers: Mapping[str, int]) -> None:
    """Refuse parameters that no default method for texts has; the model decides which one is used."""
    wrong: list[BadParameter] = []
    for name in DEFAULTS:
        try:
            resolve_methods(name, params, fillers, from_text=True)
        except BadParameter as error:
            wrong.append(error)
    if len(wrong) == len(DEFAULTS):
        raise wrong[0]
