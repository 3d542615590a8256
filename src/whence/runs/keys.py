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
