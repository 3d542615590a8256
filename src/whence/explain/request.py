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
from whence.data.removal import count_passes_per_removal, select_replacements
from whence.methods import is_trace_method, method
from whence.models.model import LoadedModel
from whence.render.colour import WordAggregation
from whence.tracing.trace import GRADIENTS

# The default methods for texts, of bidirectional and of causal models. Under a
# causal mask all tokens attend to the first ones, and attcat, which averages over attending tokens, favours these.
_DEFAULT = "attcat"
_CAUSAL_DEFAULT = "generic_attention"
DEFAULTS = (_DEFAULT, _CAUSAL_DEFAULT)
DEFAULT_OF_MODEL = (
    "default"  # names a model's default method where an empty value means "no method"
)


def choose_default_method(loaded: LoadedModel, picture: bool, causal: bool) -> str:
    """Return the default method of a model; for images, docs/science/shapes.md has the reasons."""
    if not picture:
        return _CAUSAL_DEFAULT if causal else _DEFAULT
    # Attention within windows (Swin) gives no map over the whole picture.
    windows = getattr(loaded.model.config, "window_size", None) is not None
    return "leave_one_out" if windows else "generic_attention"


def list_replacements(loaded: LoadedModel, image: Any = None) -> Mapping[str, int]:
    """Return what may stand for removed tokens, or for patches; with `image`, for those of its text."""
    if loaded.modality != "both":
        return loaded.fillers
    return select_replacements(loaded.fillers, image is None)


@dataclass(frozen=True)
class MethodRequest:
    """One method to run, with all of its parameters."""

    entry: Entry
    params: dict[str, Any]
    reads: bool  # True: a trace method, which reads the shared trace; False: a query method

    @property
    def name(self) -> str:
        """The method's name."""
        return self.entry.name

    @property
    def needs(self) -> frozenset[str]:
        """The parts of the trace that the method reads; none for a query method."""
        return frozenset(self.entry.facts["needs"]) if self.reads else frozenset()

    @property
    def backwards(self) -> int:
        """The number of backward passes that the trace takes for the method, 0 or 1."""
        return int(bool(self.needs & GRADIENTS))

    def extra_forwards(self, tokens: int, pieced: int = 0) -> int:
        """Return the forward passes of a query method for `tokens` tokens and `pieced` longer words."""
        calls = self.entry.facts.get("calls")
        per_removal = count_passes_per_removal(self.params.get("remove"))
        words = pieced if self.measures_words else 0
        return (int(calls(tokens, self.params)) + words) * per_removal if calls else 0

    @property
    def of(self) -> OutputScale | None:
        """The output scale that the method always explains; None: the requested one."""
        scale: OutputScale | None = self.entry.facts.get("of")
        return scale

    @property
    def measures_words(self) -> bool:
        """Whether the method can measure whole words."""
        return "measure_words" in self.entry.facts

    def words_by(self, *, measured: bool) -> WordAggregation:
        """Return how word scores are made: "measured", or an aggregate of token scores."""
        aggregation: WordAggregation = self.entry.facts.get("words", "sum")
        return "measured" if measured else aggregation

    @property
    def is_signed(self) -> bool:
        """Whether the method's scores can be negative."""
        depends = self.entry.facts.get("signed_when")
        return bool(depends(self.params) if depends else self.entry.facts["signed"])


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
        settle = entry.facts.get("settle")
        values = settle(values, fillers) if settle else values
        result.append(MethodRequest(entry, values, is_trace_method(entry)))
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
