"""Hugging Face loading: safetensors only, no code from the model's author, nothing guessed."""

import copy
import inspect
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from logging import CRITICAL
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import torch

from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    NoHead,
    UnknownModel,
    UnsafeWeights,
    did_you_mean,
)
from whence.models.catalogue import BUILTIN, builtin_folder

Task = Literal["single_label", "multi_label", "regression", "none"]


@dataclass(frozen=True)
class Loaded:
    """A model ready to be explained, with what its configuration and tokenizer say about it."""

    model: Any  # a transformers.PreTrainedModel
    tokenizer: Any | None
    name: str
    revision: str | None
    task: Task
    labels: tuple[str, ...]
    max_length: int | None
    pad_id: int | None  # what padding is made of
    pad_ids: frozenset[int]  # what counts as padding: the model's and the tokenizer's
    fillers: Mapping[str, int]  # mask, pad, unk: the ids that can stand in for a removed token
    anchors: frozenset[int]  # ids without which the model is undefined: its head looks for them

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the computation."""
        return next(p.dtype for p in self.model.parameters() if p.is_floating_point())  # type: ignore[no-any-return]

    @property
    def vocabulary(self) -> int | None:
        """The number of token embeddings."""
        try:
            weight = getattr(self.model.get_input_embeddings(), "weight", None)
        except NotImplementedError:  # what transformers raises where it cannot find them
            return None
        return None if weight is None else int(weight.shape[0])

    @cached_property
    def accepts(self) -> frozenset[str]:
        """The keywords of the model's forward."""
        return frozenset(inspect.signature(self.model.forward).parameters)


def load(
    what: Any,
    *,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
) -> Loaded:
    """Load a built-in name, a folder or a Hub id; or take a model object as it is."""
    dtype = _dtype(dtype)
    if isinstance(what, torch.nn.Module):
        if not hasattr(getattr(what, "config", None), "num_labels"):
            raise UnknownModel(
                f"Cannot explain a {type(what).__name__}: it has no transformers configuration. Give a "
                "transformers model, or a subclass of PreTrainedModel."
            )
        model = _own_copy(what, device, dtype)
        name = str(getattr(what.config, "_name_or_path", "") or type(what).__name__)
        if isinstance(tokenizer, str | Path):
            tokenizer = _tokenizer(str(tokenizer), None, named=True)
        return _described(model, tokenizer, name, None)
    if not isinstance(what, str | Path):
        raise UnknownModel(
            f"Cannot load a {type(what).__name__}: give a built-in name ({', '.join(BUILTIN)}), a folder, "
            "a Hub id, or a transformers model."
        )
    name = str(what)
    where = str(builtin_folder(name)) if name in BUILTIN else name
    device = _device(device)
    config = _config(where, name, revision)
    model = _model(where, name, config, revision, dtype).to(device)
    if tokenizer is None:
        tokenizer = _tokenizer(where, revision)
    elif isinstance(tokenizer, str | Path):
        tokenizer = _tokenizer(str(tokenizer), None, named=True)
    return _described(model, tokenizer, name, revision)


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found is None and dtype is None:
        return None
    if not (isinstance(found, torch.dtype) and found.is_floating_point):
        raise BadParameter(f"dtype must be float64, float32, bfloat16 or float16. Got {dtype!r}.")
    return found


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        have = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        have += ["mps"] if torch.backends.mps.is_available() else []
        raise BadParameter(
            f"The device {str(device)!r} cannot be used ({str(error).splitlines()[0]}). Here are: {', '.join(have)}."
        ) from None
    return found


def _own_copy(model: Any, device: str | torch.device | None, dtype: torch.dtype | None) -> Any:
    """Leave the caller's model where it is: another device or dtype means a copy."""
    here = next(model.parameters())
    there = here.device if device is None else _device(device)
    if (dtype is None or dtype == here.dtype) and there == here.device:
        return model
    return copy.deepcopy(model).to(device=there, dtype=dtype)


def _config(where: str, name: str, revision: str | None) -> Any:
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


def _model(
    where: str, name: str, config: Any, revision: str | None, dtype: torch.dtype | None
) -> Any:
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


def _tokenizer(where: str, revision: str | None, *, named: bool = False) -> Any | None:
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


def _described(model: Any, tokenizer: Any, name: str, revision: str | None) -> Loaded:
    labels, task = _task(model)
    stated = [getattr(model.config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None)]
    pads = [identity for identity in stated if isinstance(identity, int) and identity >= 0]
    pad_id = pads[0] if pads else None
    fillers = {
        kind: identity
        for kind in ("mask", "pad", "unk")
        if (identity := getattr(tokenizer, f"{kind}_token_id", None)) is not None
    }
    if "pad" not in fillers and pad_id is not None:
        fillers["pad"] = pad_id
    # BART and T5 classifiers read the place of the end-of-sequence token and fail without one.
    end = getattr(model.config, "eos_token_id", None)
    anchors = [end] if isinstance(end, int) and model.config.is_encoder_decoder else []
    return Loaded(
        model,
        tokenizer,
        name,
        revision,
        task,
        labels,
        _max_length(model, tokenizer),
        pad_id,
        frozenset(pads),
        fillers,
        frozenset(anchors),
    )


def _task(model: Any) -> tuple[tuple[str, ...], Task]:
    kind = type(model)
    # A class of one's own may be a classifier under any name; whether it gives logits shows when it is run.
    foreign = not kind.__module__.startswith("transformers.")
    if not (foreign or kind.__name__.endswith("ForSequenceClassification")):
        return (), "none"
    config = model.config
    names = [str((config.id2label or {}).get(i, f"LABEL_{i}")) for i in range(config.num_labels)]
    labels = tuple(n if names.count(n) == 1 else f"{n} ({i})" for i, n in enumerate(names))
    if config.problem_type == "multi_label_classification":
        return labels, "multi_label"
    if config.problem_type == "regression" or len(labels) == 1:
        return labels, "regression"
    return labels, "single_label"


def _max_length(model: Any, tokenizer: Any) -> int | None:
    """The smaller of what the positions and the tokenizer allow; None where neither sets a bound."""
    bounds = []
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        for name, module in model.named_modules():
            # RoBERTa and its kin count positions from padding_idx + 1.
            is_table = isinstance(module, torch.nn.Embedding) and module.num_embeddings == positions
            if is_table and "position" in name and module.padding_idx is not None:
                positions -= module.padding_idx + 1
                break
        bounds.append(positions)
    stated = getattr(tokenizer, "model_max_length", None)
    if isinstance(stated, int) and stated < 1 << 30:
        bounds.append(stated)
    return min(bounds, default=None)
