"""Loading: a built-in name, a folder, a Hub id or a model object becomes a `Loaded`."""

import copy
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import BadParameter, BadTokenizer, UnknownModel
from whence.core.places import public_name
from whence.models import fetch
from whence.models.catalogue import BUILTIN, builtin_folder
from whence.models.fetch import Origin
from whence.models.loaded import Loaded, described, modality
from whence.models.offload import device_of, is_offloaded


def load(
    what: Any,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
) -> Loaded:
    """Load a built-in name, a folder or a Hub id; or take a model object as it is."""
    dtype = _dtype(dtype)
    if isinstance(tokenizer, str | Path):
        tokenizer = fetch.tokenizer(Origin(str(tokenizer), str(tokenizer)), asked=True)
    if isinstance(processor, str | Path):
        processor = fetch.processor(Origin(str(processor), str(processor)), asked=True)
    what = getattr(what, "_orig_mod", what)  # what torch.compile was given
    if isinstance(what, torch.nn.Module):
        _check_object(what)
        name = str(getattr(what.config, "_name_or_path", "") or type(what).__name__)
        return _with_words(
            described(_own_copy(what, device, dtype), tokenizer, _public(name), None, processor)
        )
    if not isinstance(what, str | Path):
        raise UnknownModel(
            f"Cannot load a {type(what).__name__}: give a built-in name ({', '.join(BUILTIN)}), a folder, "
            "a Hub id, or a transformers model."
        )
    name = str(what)
    origin = Origin(str(builtin_folder(name)) if name in BUILTIN else name, name, revision)
    device = _device(device)
    config = fetch.config(origin)
    model = fetch.weights(origin, config, _loading_dtype(config, dtype, device)).to(device)
    takes = modality(model)
    if tokenizer is None and takes != "picture":
        tokenizer = fetch.tokenizer(origin)
    if processor is None and takes != "text":
        processor = fetch.processor(origin)
    return _with_words(described(model, tokenizer, _public(name), revision, processor))


def _public(name: str) -> str:
    """Return what a model is called in results: a folder does not go by where it lies, nor by a built-in name."""
    return name if name in BUILTIN else public_name(name, tuple(BUILTIN))


# A tokenizer whose vocabulary file is missing knows its special tokens, and nothing else. Tables are often padded,
# most of all that of ByT5, which has 384 rows for 259 tokens.
_FEWEST = 0.25


def _with_words(loaded: Loaded) -> Loaded:
    """Refuse a tokenizer that knows far fewer words than the model: the others would be explained as unknown."""
    rows = loaded.vocabulary
    if loaded.tokenizer is None or rows is None or len(loaded.tokenizer) >= _FEWEST * rows:
        return loaded
    raise BadTokenizer(
        f"The tokenizer of {loaded.name!r} knows {len(loaded.tokenizer):,} tokens, and the model has embeddings of "
        f"{rows:,}: its vocabulary is missing (tokenizer.json, vocab.txt, tokenizer.model), and every other word "
        "would be explained as unknown. Copy it from the model that this one was made from, give the right one with "
        "tokenizer=..., or remove the tokenizer's files to explain encoded inputs."
    )


def _check_object(model: torch.nn.Module) -> None:
    """Refuse a module that is no transformers model, or has nothing to compute with."""
    from transformers import PretrainedConfig

    kind, config = type(model).__name__, getattr(model, "config", None)
    if not isinstance(config, PretrainedConfig):
        has = "no config" if config is None else f"a config that is a {type(config).__name__}"
        raise UnknownModel(
            f"Cannot explain a {kind}: it has {has}, and no transformers configuration. Give a transformers model, "
            "or a subclass of PreTrainedModel."
        )
    if not any(one.is_floating_point() for one in model.parameters()):
        raise UnknownModel(
            f"Cannot explain a {kind}: it has no floating-point weights. Give a model with its weights."
        )
    _refuse_meta(model)


def _loading_dtype(config: Any, dtype: torch.dtype | None, device: torch.device) -> torch.dtype:
    """Half precision is a storage format on the CPU: compute in float32 there unless told otherwise."""
    if dtype is not None:
        return dtype
    stored: torch.dtype = getattr(config, "dtype", None) or torch.float32
    half = stored in (torch.float16, torch.bfloat16)
    return torch.float32 if half and device.type == "cpu" else stored


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
        if found.type == "meta":
            raise NotImplementedError("it holds sizes and no numbers")
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        have = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        have += ["mps"] if torch.backends.mps.is_available() else []
        raise BadParameter(
            f"The device {str(device)!r} cannot be used ({str(error).splitlines()[0]}). Here are: {', '.join(have)}."
        ) from None
    return found


def _refuse_meta(model: torch.nn.Module) -> None:
    """Refuse a model without numbers, unless accelerate is to bring them from elsewhere when it is run."""
    empty = next((name for name, one in model.named_parameters() if one.is_meta), None)
    if empty is not None and not is_offloaded(model):
        raise UnknownModel(
            f"The {type(model).__name__} has no weights: {empty!r} is on the meta device, which holds sizes and no "
            "numbers. Load its weights first, with from_pretrained or load_state_dict(..., assign=True)."
        )


def _own_copy(model: Any, device: str | torch.device | None, dtype: torch.dtype | None) -> Any:
    """Leave the caller's model where it is: another device or dtype means a copy."""
    here = next(one for one in model.parameters() if one.is_floating_point())
    there = device_of(model) if device is None else _device(device)
    same = (dtype is None or dtype == here.dtype) and there == device_of(model)
    if not same and is_offloaded(model):
        raise BadParameter(
            f"The weights of this {type(model).__name__} are offloaded, and stay where accelerate put them: leave "
            "device and dtype out, or load it without device_map."
        )
    if same and not any(one.is_inference() for one in model.parameters()):
        return model
    # What was made under inference_mode cannot be differentiated; a copy that is made outside of it can.
    with torch.inference_mode(False):
        return copy.deepcopy(model).to(device=there, dtype=dtype)


"""Saving a model as a folder that `load` takes: there whole, or not yet there."""

import shutil
from pathlib import Path
from typing import Any

from whence.core.errors import CannotWrite
from whence.models.fetch import quiet

_LAST = "config.json"  # a folder without it is no model


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write safetensors, configuration and tokenizer into `folder`; whoever looks finds a whole model or none."""
    staging = folder / ".saving"
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        with quiet():
            tokenizer.save_pretrained(staging)
            model.save_pretrained(staging)
        # Weights are written for their owner alone; they get the mode of all other files.
        mode = (staging / _LAST).stat().st_mode
        (folder / _LAST).unlink(missing_ok=True)
        for path in sorted(staging.iterdir(), key=lambda path: path.name == _LAST):
            path.chmod(mode)
            path.replace(folder / path.name)
        staging.rmdir()
    except OSError as error:
        raise CannotWrite(
            f"Cannot save the model in {str(folder)!r}: {error.strerror or error}. Make room, or choose a folder "
            "that you may write to."
        ) from None
