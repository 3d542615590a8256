"""Loading of a built-in name, a folder, a Hub id or a model object as a `LoadedModel`; saving to a folder.

A masked language model can be loaded beside it, to draw replacements for removed tokens: both must share one
vocabulary. A saved folder is complete or absent: its config.json is moved in last.
"""

import copy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import BadParameter, BadTokenizer, CannotWrite, NoHead, UnknownModel
from whence.models.facts import is_offloaded
from whence.models.model import (
    InfillModel,
    LoadedModel,
    build_loaded_model,
    inspect_inputs,
)
from whence.models.model_files import (
    BUILTIN,
    ModelOrigin,
    find_builtin_folder,
    load_config,
    load_part,
    load_weights,
    silence_transformers,
)


def load_model(
    what: Any,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
) -> LoadedModel:
    """Load a built-in name, a folder or a Hub id; or take a model object as it is."""
    named = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and not (isinstance(named, torch.dtype) and named.is_floating_point):
        raise BadParameter(f"dtype must be float64, float32, bfloat16 or float16. Got {dtype!r}.")
    dtype = named
    if isinstance(tokenizer, str | Path):
        origin = ModelOrigin(str(tokenizer), str(tokenizer))
        tokenizer = load_part(origin, "tokenizer", required=True)
    if isinstance(processor, str | Path):
        origin = ModelOrigin(str(processor), str(processor))
        processor = load_part(origin, "processor", required=True)
    what = getattr(what, "_orig_mod", what)  # the module inside of torch.compile's wrapper
    if isinstance(what, torch.nn.Module):
        _check_model_object(what)
        name = str(getattr(what.config, "_name_or_path", "") or type(what).__name__)
        loaded = build_loaded_model(what, tokenizer, name, None, processor)
        return _copy_if_needed(loaded, device, dtype)
    if not isinstance(what, str | Path):
        raise UnknownModel(
            f"Cannot load a {type(what).__name__}: give a built-in name ({', '.join(BUILTIN)}), a folder, "
            "a Hub id, or a transformers model."
        )
    name = str(what)
    where = str(find_builtin_folder(name)) if name in BUILTIN else name
    origin = ModelOrigin(where, name, revision)
    usual = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = usual if device is None else _check_device(device)
    config = load_config(origin)
    if dtype is None:
        dtype = getattr(config, "dtype", None) or torch.float32
        # Half precision is a storage format on the CPU.
        if device.type == "cpu" and dtype in (torch.float16, torch.bfloat16):
            dtype = torch.float32
    model = load_weights(origin, config, dtype).to(device)
    modality, _ = inspect_inputs(model)
    if tokenizer is None and modality != "picture":
        tokenizer = load_part(origin, "tokenizer")
    if processor is None and modality != "text":
        processor = load_part(origin, "processor")
    return build_loaded_model(model, tokenizer, name, revision, processor)


def _check_model_object(model: torch.nn.Module) -> None:
    """Refuse a module that is no transformers model, or has no weights."""
    from transformers import PretrainedConfig

    kind, config = type(model).__name__, getattr(model, "config", None)
    if not isinstance(config, PretrainedConfig):
        has = "no config" if config is None else f"a config that is a {type(config).__name__}"
        raise UnknownModel(
            f"Cannot explain a {kind}: it has {has}, and no transformers configuration. Give a transformers model, "
            "or a subclass of PreTrainedModel."
        )
    if not any(weight.is_floating_point() for weight in model.parameters()):
        raise UnknownModel(
            f"Cannot explain a {kind}: it has no floating-point weights. Give a model with its weights."
        )
    empty = next((name for name, weight in model.named_parameters() if weight.is_meta), None)
    if empty is not None and not is_offloaded(
        model
    ):  # accelerate loads weights when the model is run
        raise UnknownModel(
            f"The {kind} has no weights: {empty!r} is on the meta device, which holds sizes and no numbers. Load its "
            "weights first, with from_pretrained or load_state_dict(..., assign=True)."
        )


def _check_device(device: str | torch.device) -> torch.device:
    """Return a device; raise BadParameter if it cannot be used."""
    try:
        torch_device = torch.device(device)
        if torch_device.type == "meta":
            raise NotImplementedError("it holds sizes and no numbers")
        torch.empty(0, device=torch_device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        have = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        have += ["mps"] if torch.backends.mps.is_available() else []
        raise BadParameter(
            f"The device {str(device)!r} cannot be used ({str(error).splitlines()[0]}). Here are: {', '.join(have)}."
        ) from None
    return torch_device


def _copy_if_needed(
    loaded: LoadedModel, device: str | torch.device | None, dtype: torch.dtype | None
) -> LoadedModel:
    """Return the caller's model, or a copy of it if another device or dtype is requested."""
    model, own = loaded.model, loaded.device
    target = own if device is None else _check_device(device)
    same = (dtype is None or dtype == loaded.dtype) and target == own
    if not same and is_offloaded(model):
        raise BadParameter(
            f"The weights of this {type(model).__name__} are offloaded, and stay where accelerate put them: leave "
            "device and dtype out, or load it without device_map."
        )
    if same and not any(weight.is_inference() for weight in model.parameters()):
        return loaded
    # Weights made under inference_mode cannot be differentiated; a copy made outside of it can.
    with torch.inference_mode(False):
        return replace(loaded, model=copy.deepcopy(model).to(device=target, dtype=dtype))


def with_infill_model(loaded: LoadedModel, what: Any) -> LoadedModel:
    """Return the model with a masked language model of the same vocabulary, loaded or given."""
    candidate = load_model(what, device=loaded.device, dtype=loaded.dtype)
    kind = type(candidate.model)
    # A user's own class may have a masked language modelling head under any name; only a run would tell.
    if kind.__module__.startswith("transformers.") and not kind.__name__.endswith("ForMaskedLM"):
        raise NoHead(
            f"{candidate.name!r} is a {kind.__name__}: it has no masked language modelling head, so nothing can be drawn "
            "from it. Give a model ...ForMaskedLM as mlm."
        )
    # A model object has no tokenizer: its vocabulary is assumed to be the same.
    tokenizer = candidate.tokenizer or loaded.tokenizer
    if tokenizer is None or loaded.tokenizer is None:
        raise BadTokenizer(
            f"{loaded.name!r} has no tokenizer, so nobody knows what the language model {candidate.name!r} would draw. "
            "Give the one that belongs to them: tokenizer=..."
        )
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    if vocabulary != loaded.tokenizer.get_vocab() or (candidate.vocabulary_size or size) < size:
        raise BadTokenizer(
            f"The language model {candidate.name!r} has another vocabulary than {loaded.name!r}: what one draws, the "
            "other would read as something else. Give a masked language model with the same tokenizer as mlm."
        )
    mask = tokenizer.mask_token_id
    if mask is None:
        raise BadTokenizer(
            f"The tokenizer of the language model {candidate.name!r} has no mask token: there is nothing to fill in. "
            "Give another as mlm."
        )
    # An embedding table may be larger than the vocabulary, not smaller: only ids known to both are drawn.
    known = set(range(loaded.vocabulary_size or size)).difference(tokenizer.all_special_ids)
    infiller = InfillModel(candidate, mask, tuple(sorted(known.intersection(vocabulary.values()))))
    return replace(loaded, infiller=infiller, fillers={**loaded.fillers, "draw": mask})


_LAST_FILE = "config.json"  # moved last: a folder without it is no model


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write safetensors, configuration and tokenizer into `folder`; never a partial model."""
    staging = folder / ".saving"
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        with silence_transformers():
            tokenizer.save_pretrained(staging)
            model.save_pretrained(staging)
        # Weight files are written for their owner alone (0600); they get the mode of the other files.
        mode = (staging / _LAST_FILE).stat().st_mode
        (folder / _LAST_FILE).unlink(missing_ok=True)
        for path in sorted(staging.iterdir(), key=lambda path: path.name == _LAST_FILE):
            path.chmod(mode)
            path.replace(folder / path.name)
        staging.rmdir()
    except OSError as error:
        raise CannotWrite(
            f"Cannot save the model in {str(folder)!r}: {error.strerror or error}. Make room, or choose a folder "
            "that you may write to."
        ) from None
