"""What was asked for: methods with their parameters, checked before any work begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.capture import GRADIENTS
from whence.core.errors import BadParameter, UnknownMethod, did_you_mean
from whence.core.params import PRESET, checked
from whence.core.registry import Entry
from whence.core.types import Of
from whence.data.removal import calls_per_hole
from whence.methods import is_reader, method
from whence.models import Loaded
from whence.view.words import WordsBy

# The methods for texts where none is named: of models whose tokens all see each other, and of causal ones. Under a
# causal mask the first tokens are seen by all others, and attcat, which averages over who sees a token, favours them.
_DEFAULT = "attcat"
_CAUSAL_DEFAULT = "generic_attention"
DEFAULTS = (_DEFAULT, _CAUSAL_DEFAULT)
BY_MODEL = "default"  # the method that a model has by default, where nothing stands for no method


def default(loaded: Loaded, picture: bool, causal: bool) -> str:
    """Return the method to explain by where none is named; for pictures, docs/science/shapes.md says why."""
    if not picture:
        return _CAUSAL_DEFAULT if causal else _DEFAULT
    # Attention in windows is no map over the picture.
    windows = getattr(loaded.model.config, "window_size", None) is not None
    return "leave_one_out" if windows else "generic_attention"


@dataclass(frozen=True)
class Request:
    """One method to run, with all of its parameters."""

    entry: Entry
    params: dict[str, Any]
    reads: bool  # the shared trace; otherwise it asks the model again

    @property
    def name(self) -> str:
        """The method's name."""
        return self.entry.name

    @property
    def needs(self) -> frozenset[str]:
        """What must be traced for it."""
        return frozenset(self.entry.facts["needs"]) if self.reads else frozenset()

    @property
    def backwards(self) -> int:
        """How many backward passes the trace takes for it."""
        return int(bool(self.needs & GRADIENTS))

    def extra_forwards(self, tokens: int, pieced: int = 0) -> int:
        """How often it will ask the model about an input of so many tokens, and so many words of several."""
        calls = self.entry.facts.get("calls")
        each = calls_per_hole(self.params.get("remove"))
        words = pieced if self.measures_words else 0
        return (int(calls(tokens, self.params)) + words) * each if calls else 0

    @property
    def of(self) -> Of | None:
        """What it explains whatever is asked for; None: what is asked for."""
        found: Of | None = self.entry.facts.get("of")
        return found

    @property
    def measures_words(self) -> bool:
        """Whether it can be asked about whole words."""
        return "measure_words" in self.entry.facts

    def words_by(self, *, measured: bool) -> WordsBy:
        """How the score of a word comes about: measured if it was, else made of those of its tokens."""
        found: WordsBy = self.entry.facts.get("words", "sum")
        return "measured" if measured else found

    @property
    def signed(self) -> bool:
        """Whether its scores can be negative."""
        depends = self.entry.facts.get("signed_when")
        return bool(depends(self.params) if depends else self.entry.facts["signed"])


def requests(
    names: str | Sequence[str],
    params: Mapping[str, Any] | None,
    fillers: Mapping[str, int],
    *,
    from_text: bool = False,
) -> list[Request]:
    """Look the methods up and check their parameters.

    With several methods, `params` maps a method's name to its parameters, or names parameters that go to
    every method that has them. "preset" picks a named setting of a method; what is given beside it wins.
    """
    if not isinstance(names, str | Sequence) or not all(isinstance(name, str) for name in names):
        raise UnknownMethod(f"method must be a name or a list of names. Got {names!r}.")
    wanted = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    if not wanted:
        raise UnknownMethod(f"No method was asked for. Known: {', '.join(method.names())}.")
    params = {} if params is None else params
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise BadParameter(f"params must map names of parameters to values. Got {params!r}.")
    entries = [method.get(name) for name in wanted]
    given = _distributed(entries, dict(params))
    result = []
    for entry in entries:
        values = checked(
            entry.name,
            entry.parameters,
            given[entry.name],
            presets=entry.presets,
            from_text=from_text,
        )
        settle = entry.facts.get("settle")
        values = settle(values, fillers) if settle else values
        result.append(Request(entry, values, is_reader(entry)))
    return result


def check_default(params: Mapping[str, Any], fillers: Mapping[str, int]) -> None:
    """Refuse parameters that no default method for texts has; which of them explains, the model will decide."""
    wrong: list[BadParameter] = []
    for name in DEFAULTS:
        try:
            requests(name, params, fillers, from_text=True)
        except BadParameter as error:
            wrong.append(error)
    if len(wrong) == len(DEFAULTS):
        raise wrong[0]


def _distributed(entries: list[Entry], params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    given: dict[str, dict[str, Any]] = {entry.name: {} for entry in entries}
    for key, value in params.items():
        owner, _, parameter = key.partition(".")
        if owner in given and isinstance(value, Mapping):
            given[owner].update(value)
        elif owner in given and parameter:
            given[owner][parameter] = value
        elif len(entries) == 1:
            given[entries[0].name][key] = value
        else:
            for name in _takers(entries, key, value):
                given[name][key] = value
    return given


def _takers(entries: list[Entry], key: str, value: Any) -> list[str]:
    """Name the methods that have this parameter, or this preset."""
    what = f"preset {value!r}" if key == PRESET else f"parameter {key!r}"
    wanted = value if key == PRESET else key
    choices = {e.name: list(e.presets if key == PRESET else e.parameters) for e in entries}
    takers = [name for name, known in choices.items() if wanted in known]
    if not takers:
        has = "; ".join(f"{name}: {', '.join(known) or 'none'}" for name, known in choices.items())
        near = did_you_mean(
            str(wanted), sorted({one for known in choices.values() for one in known})
        )
        raise BadParameter(f"None of the methods has a {what}. They have {has}.{near}")
    return takers
