"""Tasks for workers, their results, a worker's identity, and the keys of results: hashes of all that determines them.

A result is determined by a setting (the method and its parameters, the code, the model with its tokenizer
and dtype, the target; of a metric also its parameters, the removal and the seed) and by an example: an
explanation by the model's input, and by the label where that is the target; a metric by the whole example.
Device, backend, batch and order do not count: they change numbers by rounding at most.
"""

import inspect
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whence.core.registry import Entry
from whence.data.dataset import hash_json
from whence.data.example import Example
from whence.models.model import LoadedModel

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Item:
    """One example of a data set, with its row, id and digests."""

    row: int  # its place in the data, counted from 0, rows that cannot be read included
    id: str  # from the data's id column, or a name made from its place
    example: Example
    digest: str  # of the example: text, label, rationale, picture, mask
    given: str  # digest of the model's input: the text or the picture alone


@dataclass(frozen=True)
class Task:
    """A chunk's examples, of similar length, and the methods missing for them: the unit of work."""

    window: int
    chunk: int
    items: tuple[Item, ...]
    methods: tuple[str, ...]  # methods to explain by; each is tested by every metric of the plan


@dataclass(frozen=True)
class TaskResult:
    """The results of a task as tables (whence.runs.records), with seconds, costs and peak memory."""

    window: int
    chunk: int
    tables: Mapping[str, "pa.Table"]
    seconds: float
    # By method: {"seconds": of all examples, "forward": ..., "backward": ...}; under "" the cost of the metrics.
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    worker: str = ""  # host and process id, for the log
    # Peak bytes of the worker so far: "host" of its process, "device" of the accelerator.
    memory: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_examples(self) -> int:
        """The number of examples that have results."""
        return len({row for table in self.tables.values() for row in table["row"].to_pylist()})

    def count_explanations(self, *, failed: bool = False) -> Counter[str]:
        """Return the number of explanations by method, or of those that failed."""
        table = self.tables["explanations"]
        own = table.filter(table["error"].is_valid()) if failed else table
        return Counter(own["method"].to_pylist())


@dataclass(frozen=True)
class Identity:
    """The model, code and settings of a worker that results depend on; equal for all of a run."""

    model: Mapping[str, Any]  # name, revision, class, fingerprint, labels; dtype, tokenizer
    code: str  # digest of all code that computes results
    settings: Mapping[
        str, Mapping[str, Any]
    ]  # by digest: all that determines a result but the example
    explained: Mapping[str, str]  # by method: the digest of its setting
    tested: Mapping[str, Mapping[str, str]]  # by method, by metric: the digest of the setting
    software: Mapping[str, str] = field(default_factory=dict)  # not compared: versions, device
    # By code: warnings on single texts, and on pairs, for this model.
    warnings: Mapping[str, str] = field(default_factory=dict)

    def compute_key(self, setting: str, item: Item) -> str:
        """Return the key of an example's result in a setting."""
        return compute_example_key(setting, self.settings[setting], item)


# Source of the numbers in a record: packages, and the files elsewhere that build records.
_ROW_SOURCES = (
    *("core", "stats", "kernels", "models", "data", "tracing", "lrp", "flow"),
    *("methods", "metrics", "explain"),
    *("studies/evaluation/measure.py", "studies/evaluation/evaluate.py"),
    "runs/worker.py",
)
_AUDIT_SOURCES = (*_ROW_SOURCES, "studies/training", "studies/audit")
_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def compute_code_digest() -> str:
    """Return the digest of all code that computes explanations and metrics."""
    return _digest_source_files(_PACKAGE, _ROW_SOURCES)


@cache
def compute_audit_code_digest() -> str:
    """Return the digest of all code that computes an audit."""
    return _digest_source_files(_PACKAGE, _AUDIT_SOURCES)


def _digest_source_files(package: Path, places: Iterable[str]) -> str:
    digest = sha256()
    for place in places:
        at = package / place
        for path in [at] if at.is_file() else sorted(at.rglob("*.py")):
            raw = path.read_bytes()
            digest.update(f"{path.relative_to(package).as_posix()} {len(raw)}\n".encode())
            digest.update(raw)
    return digest.hexdigest()


def compute_source_digest(entry: Entry) -> str | None:
    """Return the digest of a third-party method's or metric's module; None for one of whence."""
    module = inspect.getmodule(entry.fn)
    name = entry.fn.__module__
    if name.partition(".")[0] == __name__.partition(".")[0]:
        return None
    try:
        text = inspect.getsource(entry.fn if module is None else module)
    except (OSError, TypeError):  # defined in an interpreter session or generated
        code = inspect.unwrap(entry.fn).__code__
        plain = [repr(constant) for constant in code.co_consts if not inspect.iscode(constant)]
        text = f"{code.co_code.hex()} {code.co_names} {plain}"
    return sha256(text.encode()).hexdigest()


# The part of an example that a result depends on; in a setting under "example".
ExampleScope = Literal["given", "given and label", "all"]


def to_json_data(value: Any) -> Any:
    """Return a value as it reads back from JSON: lists for tuples, strings for other objects."""
    if isinstance(value, Mapping):
        return {str(name): to_json_data(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_data(item) for item in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def compute_setting_digest(facts: Mapping[str, Any]) -> str:
    """Return the short hash that names a setting in records; the manifest has its content."""
    return hash_json(facts)[:16]


def compute_result_key(setting: str, example: str) -> str:
    """Return the key of a result from the digests of its setting and example."""
    return sha256(f"{setting} {example}".encode()).hexdigest()


def compute_example_key(setting: str, facts: Mapping[str, Any], item: Item) -> str:
    """Return the key of an example's result from a setting's digest and content."""
    part: ExampleScope = facts.get("example", "all")
    if part == "given":
        return compute_result_key(setting, item.given)
    if part == "given and label":
        return compute_result_key(setting, hash_json([item.given, item.example.label]))
    return compute_result_key(setting, item.digest)


# State of a tokenizer's last call, and its location below: they differ between equal tokenizers.
_CALL_STATE_FIELDS = {"truncation", "padding", "version"}
_SPECIAL_TOKENS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_LOCATION_FIELDS = {
    "name_or_path",
    "is_local",
    "local_files_only",
    "added_tokens_decoder",
    "_commit_hash",
}


def compute_tokenizer_digest(loaded: LoadedModel) -> str | None:
    """Return the digest of a model's tokenizer; None without one."""
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        facts = json.loads(backend.to_str())
        rules = {name: rule for name, rule in facts.items() if name not in _CALL_STATE_FIELDS}
    else:
        options = {k: v for k, v in tokenizer.init_kwargs.items() if k not in _LOCATION_FIELDS}
        told = {k: _digest_file(v) if k.endswith("_file") else str(v) for k, v in options.items()}
        rules = {"vocabulary": tokenizer.get_vocab(), "told": told}
    special = {kind: getattr(tokenizer, f"{kind}_token_id", None) for kind in _SPECIAL_TOKENS}
    return hash_json(
        {
            "class": type(tokenizer).__name__,
            "special": special,
            "inputs": list(tokenizer.model_input_names),
            "cut": getattr(tokenizer, "truncation_side", None),
            "longest": loaded.max_length,
            "rules": rules,
        }
    )


def compute_processor_digest(loaded: LoadedModel) -> str | None:
    """Return the digest of a model's image processor; None without one."""
    if loaded.processor is None:
        return None
    facts = {k: v for k, v in loaded.processor.to_dict().items() if k not in _LOCATION_FIELDS}
    plain = json.loads(json.dumps(facts, default=str))
    return hash_json({"class": type(loaded.processor).__name__, "facts": plain})


def _digest_file(path: Any) -> str:
    """Return the digest of a tokenizer's file, which may contain its rules."""
    return hash_json(Path(path).read_bytes().hex()) if path and Path(path).is_file() else str(path)
