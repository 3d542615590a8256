"""What decides how a text becomes ids, or a picture pixels, as a digest: wherever it was loaded from."""

import json
from pathlib import Path
from typing import Any

from whence.data.sets.digest import digest
from whence.models import Loaded

# What a tokenizer was told when it was called last, or where it lies: no two calls agree on it.
_PASSING = {"truncation", "padding", "version"}
_KINDS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_ELSEWHERE = {
    "name_or_path",
    "is_local",
    "local_files_only",
    "added_tokens_decoder",
    "_commit_hash",
}


def tokenizer_digest(loaded: Loaded) -> str | None:
    """Return the digest of a model's tokenizer; None where it has none."""
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return digest(
        {
            "class": type(tokenizer).__name__,
            "special": {kind: getattr(tokenizer, f"{kind}_token_id", None) for kind in _KINDS},
            "inputs": list(tokenizer.model_input_names),
            "cut": getattr(tokenizer, "truncation_side", None),
            "longest": loaded.max_length,
            "rules": _slow(tokenizer) if backend is None else _fast(backend),
        }
    )


def processor_digest(loaded: Loaded) -> str | None:
    """Return the digest of a model's image processor; None where it has none."""
    if loaded.processor is None:
        return None
    facts = {k: v for k, v in loaded.processor.to_dict().items() if k not in _ELSEWHERE}
    plain = json.loads(json.dumps(facts, default=str))
    return digest({"class": type(loaded.processor).__name__, "facts": plain})


def _fast(backend: Any) -> dict[str, Any]:
    rules: dict[str, Any] = json.loads(backend.to_str())
    return {name: rule for name, rule in rules.items() if name not in _PASSING}


def _slow(tokenizer: Any) -> dict[str, Any]:
    told = {k: v for k, v in tokenizer.init_kwargs.items() if k not in _ELSEWHERE}
    return {
        "vocabulary": tokenizer.get_vocab(),
        "told": {k: _contents(v) if k.endswith("_file") else str(v) for k, v in told.items()},
    }


def _contents(path: Any) -> str:
    """Return the digest of a file of the tokenizer: its rules may be in it."""
    return digest(Path(path).read_bytes().hex()) if path and Path(path).is_file() else str(path)


"""The digest of the code that computes: results of other code have other keys."""

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from whence.core.registry import Entry

# Where the numbers of a row come from: rooms, and the files of other rooms that make rows of them.
_ROWS = (
    *("core", "stats", "kernels", "models", "data", "capture", "lrp", "flow", "trial"),
    *("methods", "metrics", "explainer"),
    *("evaluation/measures.py", "evaluation/portions.py", "evaluation/tested.py"),
    *("run/work.py", "run/worker.py", "run/records.py"),
)
_AUDITS = (*_ROWS, "training", "audit")
_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def code_of_rows() -> str:
    """Return the digest of all code that explains and tests."""
    return _digest(_PACKAGE, _ROWS)


@cache
def code_of_audits() -> str:
    """Return the digest of all code that audits."""
    return _digest(_PACKAGE, _AUDITS)


def _digest(package: Path, places: Iterable[str]) -> str:
    found = sha256()
    for place in places:
        at = package / place
        for path in [at] if at.is_file() else sorted(at.rglob("*.py")):
            raw = path.read_bytes()
            found.update(f"{path.relative_to(package).as_posix()} {len(raw)}\n".encode())
            found.update(raw)
    return found.hexdigest()


def source_of(entry: Entry) -> str | None:
    """Return the digest of the module that a method or metric of somebody else stands in; None if it is our own."""
    module = inspect.getmodule(entry.fn)
    name = entry.fn.__module__
    if name.partition(".")[0] == __name__.partition(".")[0]:
        return None
    try:
        text = inspect.getsource(entry.fn if module is None else module)
    except (OSError, TypeError):  # typed in by hand, or made on the spot
        text = _compiled(inspect.unwrap(entry.fn))
    return sha256(text.encode()).hexdigest()


def _compiled(fn: Callable[..., Any]) -> str:
    """Return what a function was compiled to, where there is no file to read."""
    code = fn.__code__
    plain = [repr(one) for one in code.co_consts if not inspect.iscode(one)]
    return f"{code.co_code.hex()} {code.co_names} {plain}"


"""The key of a result: a hash of everything that determines it, and of nothing else.

A result is determined by a *setting* (the method and its parameters, the code, the model with its tokenizer and its
dtype, the target; of a test also the metric, its parameters, the removal, the seed) and by an example: an explanation
by what is given to the model, and by the label where that is what is explained; a test by all that an example says.
Which device, backend, batch or order it was computed in does not count: it changes numbers by rounding at most.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from whence.data.sets.digest import digest, example_digest, given_digest

if TYPE_CHECKING:
    from whence.run.task import Item

__all__ = ["Part", "digest", "example_digest", "given_digest", "key", "key_for", "setting_digest"]

# What of an example a result depends on; a setting says it under "example".
Part = Literal["given", "given and label", "all"]


def setting_digest(facts: Mapping[str, Any]) -> str:
    """Return the short hash that names a setting in every row; the manifest says what it stands for."""
    return digest(facts)[:16]


def key(setting: str, example: str) -> str:
    """Return the key of a result."""
    return sha256(f"{setting} {example}".encode()).hexdigest()


def key_for(setting: str, facts: Mapping[str, Any], item: "Item") -> str:
    """Return the key of an example's result, by the digest of the setting and what that stands for."""
    part: Part = facts.get("example", "all")
    if part == "given":
        return key(setting, item.given)
    if part == "given and label":
        return key(setting, digest([item.given, item.example.label]))
    return key(setting, item.digest)
