"""Getting a model from a folder or the Hub: safetensors only, no code of its author, nothing made up."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    NoHead,
    UnknownModel,
    UnsafeWeights,
    WhenceError,
    did_you_mean,
)
from whence.core.failure import is_failure
from whence.core.network import hub_unreachable
from whence.models.catalogue import BUILTIN
from whence.models.files import (
    check_counts,
    check_file,
    check_files,
    check_fit,
    headers,
    large_counts,
    misfit,
    shards,
)
from whence.models.remote_code import forget_code, model_class, refuse_code, refuse_kernels

_INDEX = "model.safetensors.index.json"
_ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class Origin:
    """Where a model comes from: `name` is what the user said, `where` a folder or a Hub id."""

    where: str
    name: str
    revision: str | None = None

    @property
    def folder(self) -> Path:
        """The folder, if it is one."""
        return Path(self.where)

    @cached_property
    def options(self) -> dict[str, Any]:
        """What every from_pretrained is told."""
        return {
            "revision": self.revision,
            "local_files_only": self.folder.exists() or hub_unreachable(),
        }


def config(origin: Origin) -> Any:
    """Read the configuration: the first thing that tells whether there is a model at all."""
    from transformers import AutoConfig, PretrainedConfig

    import whence.models.attentive  # noqa: F401 (makes the kind of model known to AutoConfig)

    name, folder = origin.name, origin.folder
    _refuse_adapter(origin)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UnknownModel(
            f"The folder {name!r} has no config.json: it is not a Hugging Face model."
        )
    if not folder.exists() and _looks_like_a_path(origin.where):
        raise UnknownModel(
            f"There is no folder {name!r}. Give the path of a model folder, a Hub id (owner/name), or a built-in "
            f"name: {', '.join(BUILTIN)}."
        )
    _check_folder(origin)
    try:
        with quiet():
            values, _ = PretrainedConfig.get_config_dict(origin.where, **origin.options)
            # A configuration writes out its labels and layers when it is made, however many it says there are.
            if counts := large_counts(values):
                stored = headers(weight_files(origin, values.get("transformers_weights")), name)
                check_counts(counts, stored, name)
            refuse_kernels(values, name)
            found = AutoConfig.from_pretrained(
                origin.where, trust_remote_code=False, **origin.options
            )
        forget_code(found)
        return found
    except WhenceError as error:
        if isinstance(error, BadParameter):  # of the configuration's own class, which is ours
            raise UnknownModel(f"The folder {name!r} cannot be read as a model: {error}") from None
        raise
    except BaseException as error:
        # transformers and the Hub client raise a dozen classes here; the user has one question: what now?
        if not is_failure(error):
            raise
        refuse_code(error, name)
        if folder.exists():
            raise UnknownModel(
                f"The folder {name!r} cannot be read as a model: {_reason(error)}"
            ) from None
        raise UnknownModel(
            f"There is no model {name!r}: neither built in ({', '.join(BUILTIN)}), nor a folder, nor found on "
            f"the Hub.{did_you_mean(name, list(BUILTIN))} Check the spelling, the path or the network."
        ) from None


def _check_folder(origin: Origin) -> None:
    if origin.folder.is_dir():
        check_files(origin.folder, origin.name)


def _reason(error: BaseException) -> str:
    """Return the first line of somebody else's error, with the next where that says what it is about."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else type(error).__name__


def _looks_like_a_path(where: str) -> bool:
    return where.startswith((".", "/", "~")) or "\\" in where or where.count("/") > 1


def weights(origin: Origin, config: Any, dtype: torch.dtype) -> Any:
    """Load the weights into the class that the checkpoint names."""
    from transformers import PreTrainedModel

    name, folder = origin.name, origin.folder
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
    # transformers takes these first, whatever else there is.
    if parts := sorted(path.name for path in folder.glob("shard-*-model-*-of-*.safetensors")):
        raise UnknownModel(
            f"The weights of {name!r} are those of several processes ({parts[0]}). Put them together where you "
            "trained the model, with save_pretrained."
        )
    stored = headers(weight_files(origin, getattr(config, "transformers_weights", None)), name)
    own: dict[str, tuple[int, ...]] = {}
    try:
        with quiet():
            kind = model_class(config, name)
            own = check_fit(kind, config, stored, name)
            # The one of all models: a few classes open a pickle beside their weights (Qwen2.5-Omni, for its voices).
            model, report = PreTrainedModel.from_pretrained.__func__(
                kind,
                origin.where,
                config=config,
                use_safetensors=True,
                weights_only=True,
                trust_remote_code=False,
                dtype=dtype,
                output_loading_info=True,
                **origin.options,
            )
    except WhenceError:
        raise
    except BaseException as error:  # as above: a dozen classes, one question
        if not is_failure(error):
            raise
        refuse_code(error, name)
        # It refers to a report on the screen, which is kept off it.
        mismatched = "ignore_mismatched_sizes" in str(error)
        reason = misfit(own, stored) if mismatched else _reason(error)
        if "safetensors" in reason and not folder.is_dir():
            raise UnsafeWeights(
                f"The model {name!r} offers no safetensors weights, and whence opens no pickles. "
                "Use a revision that has them, or convert them."
            ) from None
        raise UnknownModel(f"The weights of {name!r} cannot be loaded: {reason}") from None
    if missing := sorted(report["missing_keys"]):
        raise NoHead(
            f"The weights of {name!r} lack {len(missing)} tensors that {type(model).__name__} needs, {missing[0]!r} "
            "among them; they would be made up at random. Load a model whose weights are complete."
        )
    return model.eval()


def weight_files(origin: Origin, named: Any) -> list[Path]:
    """Return the files that transformers will take the weights from, each of them safetensors and near the model.

    `named` is what the configuration says (`transformers_weights`), which transformers follows. None are found where
    the Hub has yet to convert a model.
    """
    index = _find_file(origin, _INDEX)
    others = shards(index, origin.name) if index else []
    if named is None:
        whole = _find_file(origin, "model.safetensors")
        wanted = ["model.safetensors"] if whole else others
    elif not str(named).endswith((".safetensors", ".safetensors.index.json")):
        raise UnsafeWeights(
            f"The configuration of {origin.name!r} names {str(named)!r} for its weights (transformers_weights). "
            "whence reads safetensors only, and does not trust such a model."
        )
    elif str(named).endswith(".json"):
        if origin.folder.is_dir():
            check_file(origin.folder / str(named), origin.folder, origin.name)
        other = _find_file(origin, str(named))
        wanted = shards(other, origin.name) if other else []
    else:
        wanted = [str(named)]
    found = []
    for one in wanted:
        path = origin.folder / one
        if origin.folder.is_dir():
            check_file(path, origin.folder, origin.name)
        elif ".." in Path(one).parts or Path(one).is_absolute():
            raise UnsafeWeights(
                f"The weights of {origin.name!r} name {one!r}, which is no file of that model. whence does not "
                "trust it."
            )
        else:
            path = _find_file(origin, one) or path
        found.append(path)
    return found


def _find_file(origin: Origin, file: str) -> Path | None:
    """Return where a file of a model lies, fetched from the Hub if need be; None where there is none."""
    from transformers.utils import cached_file

    try:
        with quiet():
            path = cached_file(
                origin.where,
                file,
                **origin.options,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
    except (OSError, ValueError) as error:
        raise UnknownModel(
            f"The file {file!r} of {origin.name!r} cannot be had: {_reason(error)}"
        ) from None
    return Path(path) if path else None


def _refuse_adapter(origin: Origin) -> None:
    """Refuse an adapter (PEFT, LoRA): the model that it adapts would be explained without it."""
    if origin.folder.is_dir():
        found = (origin.folder / _ADAPTER).is_file()
    else:
        try:
            found = _find_file(origin, _ADAPTER) is not None
        except UnknownModel:  # whether there is such a model at all is asked next
            found = False
    if found:
        raise UnknownModel(
            f"The model {origin.name!r} is an adapter ({_ADAPTER}): its base model would be explained without it. "
            f"Merge them and save the result, with peft: PeftModel.from_pretrained(base, {origin.where!r})"
            ".merge_and_unload().save_pretrained('merged'), where base is the model that it was trained on. If its "
            f"weights are merged already, remove {_ADAPTER}."
        )


@contextmanager
def quiet() -> Iterator[None]:
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


def tokenizer(origin: Origin, *, asked: bool = False) -> Any | None:
    """Load a tokenizer; a model that comes without one explains encoded inputs, and refuses text clearly.

    `asked`: the user named it, so its absence is an error.
    """
    from transformers import AutoTokenizer

    folder = origin.folder
    _check_folder(origin)
    has_files = any(any(folder.glob(pattern)) for pattern in ("*token*", "*vocab*", "*.model"))
    if folder.is_dir() and not has_files and not asked:
        return None
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(
                origin.where, trust_remote_code=False, **origin.options
            )
    except BaseException as error:  # as above
        if not is_failure(error):
            raise
        refuse_code(error, origin.name)
        if not (has_files or asked):
            return None
        raise BadTokenizer(
            f"The tokenizer of {origin.name!r} cannot be loaded: {_reason(error)} Give another with "
            "tokenizer=..., or remove its files to explain encoded inputs."
        ) from None


def processor(origin: Origin, *, asked: bool = False) -> Any | None:
    """Load what makes pixel values of pictures; a model that comes without it takes pixel values alone.

    `asked`: the user named it, so its absence is an error.
    """
    from transformers import AutoImageProcessor

    _check_folder(origin)
    try:
        with quiet():
            # One backend everywhere: the other needs torchvision, and blends pixels a little differently.
            return AutoImageProcessor.from_pretrained(
                origin.where, trust_remote_code=False, backend="pil", **origin.options
            )
    except BaseException as error:  # as above
        if not is_failure(error):
            raise
        refuse_code(error, origin.name)
        if not asked and not (origin.folder / "preprocessor_config.json").is_file():
            return None
        raise UnknownModel(
            f"The image processor of {origin.name!r} cannot be loaded: {_reason(error)} Give another with "
            "processor=..., or remove preprocessor_config.json to explain encoded pixel_values."
        ) from None
