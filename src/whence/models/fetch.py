"""Getting a model from a folder or the Hub: safetensors only, no code of its author, nothing made up."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from whence.core.errors import BadTokenizer, NoHead, UnknownModel, UnsafeWeights, did_you_mean
from whence.models.catalogue import BUILTIN


def config(where: str, name: str, revision: str | None) -> Any:
    """Read the configuration: the first thing that tells whether there is a model at all."""
    from transformers import AutoConfig

    folder = Path(where)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UnknownModel(
            f"The folder {name!r} has no config.json: it is not a Hugging Face model."
        )
    if not folder.exists() and _looks_like_a_path(where):
        raise UnknownModel(
            f"There is no folder {name!r}. Give the path of a model folder, a Hub id (owner/name), or a built-in "
            f"name: {', '.join(BUILTIN)}."
        )
    try:
        with _quiet():
            return AutoConfig.from_pretrained(
                where,
                revision=revision,
                trust_remote_code=False,
                local_files_only=_hub_unreachable(where),
            )
    except Exception as error:
        # transformers and the Hub client raise a dozen classes here; the user has one question: what now?
        reason = _reason(error)
        if "trust_remote_code" in str(error):
            raise UnsafeWeights(
                f"The model {name!r} wants to run code of its own, which whence never does. "
                "Load it yourself and pass the object: whence.load(model, tokenizer=...)."
            ) from None
        if folder.exists():
            raise UnknownModel(f"The folder {name!r} cannot be read as a model: {reason}") from None
        raise UnknownModel(
            f"There is no model {name!r}: neither built in ({', '.join(BUILTIN)}), nor a folder, nor found on "
            f"the Hub.{did_you_mean(name, list(BUILTIN))} Check the spelling, the path or the network."
        ) from None


def _reason(error: Exception) -> str:
    """Return the first line of somebody else's error."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _looks_like_a_path(where: str) -> bool:
    return where.startswith((".", "/", "~")) or "\\" in where or where.count("/") > 1


def _hub_unreachable(where: str) -> bool:
    """Say whether nobody answers at the Hub's address: its client would retry for half a minute.

    What was downloaded before is then still found in the cache.
    """
    if Path(where).exists():
        return True
    from huggingface_hub.constants import ENDPOINT

    proxies = (
        v for k, v in os.environ.items() if k.lower() in ("https_proxy", "all_proxy") and "//" in v
    )
    address = urlsplit(next(proxies, ENDPOINT))
    try:
        port = address.port or (443 if address.scheme == "https" else 80)
        socket.create_connection((address.hostname or "", port), timeout=3).close()
    except (OSError, ValueError):
        return True
    return False


def weights(
    where: str, name: str, config: Any, revision: str | None, dtype: torch.dtype | None
) -> Any:
    """Load the weights into the class that the checkpoint names."""
    import transformers

    folder = Path(where)
    if folder.is_dir() and not list(folder.glob("*.safetensors*")):
        pickles = sorted(
            p.name for kind in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in folder.glob(kind)
        )
        if pickles:
            raise UnsafeWeights(
                f"The weights of {name!r} are a pickle ({pickles[0]}), which can run any code when opened; "
                "whence reads safetensors only. Convert them where you trust them: "
                "AutoModel.from_pretrained(...).save_pretrained(folder)."
            )
        raise UnknownModel(
            f"The folder {name!r} has no weights: there is no *.safetensors file in it."
        )
    _check_index(where, name, revision)
    named = (getattr(config, "architectures", None) or [""])[0]
    # Only what the checkpoint says it is: a head made up on the spot would be explained as if it were trained.
    kind = getattr(transformers, named, None) or transformers.AutoModel
    try:
        with _quiet():
            model, report = kind.from_pretrained(
                where,
                config=config,
                revision=revision,
                local_files_only=_hub_unreachable(where),
                use_safetensors=True,
                dtype=_loading_dtype(config, dtype),
                output_loading_info=True,
            )
    except Exception as error:
        reason = _reason(error)
        if "safetensors" in reason and not folder.is_dir():
            raise UnsafeWeights(
                f"The model {name!r} offers no safetensors weights, and whence opens no pickles. "
                "Use a revision that has them, or convert them."
            ) from None
        raise UnknownModel(f"The weights of {name!r} cannot be loaded: {reason}") from None
    if missing := sorted(report["missing_keys"]):
        raise NoHead(
            f"The weights of {name!r} lack {len(missing)} tensors that {kind.__name__} needs, {missing[0]!r} among "
            "them; they would be made up at random. Load a model whose weights are complete."
        )
    return model.eval()


def _check_index(where: str, name: str, revision: str | None) -> None:
    """Refuse an index of safetensors shards that names something else: it would be opened as a pickle."""
    from transformers.utils import cached_file

    try:
        with _quiet():
            path = cached_file(
                where,
                "model.safetensors.index.json",
                revision=revision,
                local_files_only=_hub_unreachable(where),
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
        shards = json.loads(Path(path).read_text())["weight_map"].values() if path else ()
        wrong = sorted({str(shard) for shard in shards if not str(shard).endswith(".safetensors")})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownModel(
            f"The index of the weights of {name!r} cannot be read: {error}"
        ) from None
    if wrong:
        raise UnsafeWeights(
            f"The weights of {name!r} are said to be safetensors, but their index names {wrong[0]!r}. whence reads "
            "safetensors only, and does not trust such a model."
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep progress bars and remarks of transformers and the Hub off the screen: our errors say it better."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    hub_verbosity = hub_logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    hub_logging.set_verbosity(CRITICAL)
    try:
        yield
    finally:
        hub_logging.set_verbosity(hub_verbosity)
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _loading_dtype(config: Any, dtype: torch.dtype | None) -> torch.dtype:
    """Half precision is a storage format on the CPU: compute in float32 there unless told otherwise."""
    if dtype is not None:
        return dtype
    stored = getattr(config, "dtype", None) or torch.float32
    half = stored in (torch.float16, torch.bfloat16)
    return torch.float32 if half and not torch.cuda.is_available() else stored


def tokenizer(where: str, revision: str | None, *, named: bool = False) -> Any | None:
    """Load a tokenizer; a model that comes without one explains encoded inputs, and refuses text clearly."""
    from transformers import AutoTokenizer

    folder = Path(where)
    has_files = any(any(folder.glob(pattern)) for pattern in ("*token*", "*vocab*", "*.model"))
    if folder.is_dir() and not has_files and not named:
        return None
    try:
        with _quiet():
            return AutoTokenizer.from_pretrained(
                where,
                revision=revision,
                trust_remote_code=False,
                local_files_only=_hub_unreachable(where),
            )
    except Exception as error:
        if not (has_files or named):
            return None
        raise BadTokenizer(
            f"The tokenizer of {where!r} cannot be loaded: {_reason(error)} Give another with tokenizer=..., or "
            "remove its files to explain encoded inputs."
        ) from None
