"""Getting a model from a folder or the Hub: safetensors only, no code of its author, nothing made up."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import BadTokenizer, NoHead, UnknownModel, UnsafeWeights, did_you_mean
from whence.core.network import hub_unreachable
from whence.models.catalogue import BUILTIN


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
    from transformers import AutoConfig

    import whence.models.attentive  # noqa: F401 (makes the kind of model known to AutoConfig)

    name, folder = origin.name, origin.folder
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UnknownModel(
            f"The folder {name!r} has no config.json: it is not a Hugging Face model."
        )
    if not folder.exists() and _looks_like_a_path(origin.where):
        raise UnknownModel(
            f"There is no folder {name!r}. Give the path of a model folder, a Hub id (owner/name), or a built-in "
            f"name: {', '.join(BUILTIN)}."
        )
    try:
        with quiet():
            return AutoConfig.from_pretrained(
                origin.where, trust_remote_code=False, **origin.options
            )
    except Exception as error:
        # transformers and the Hub client raise a dozen classes here; the user has one question: what now?
        if "trust_remote_code" in str(error):
            raise UnsafeWeights(
                f"The model {name!r} wants to run code of its own, which whence never does. "
                "Load it yourself and pass the object: whence.load(model, tokenizer=...)."
            ) from None
        if folder.exists():
            raise UnknownModel(
                f"The folder {name!r} cannot be read as a model: {_reason(error)}"
            ) from None
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


def weights(origin: Origin, config: Any, dtype: torch.dtype) -> Any:
    """Load the weights into the class that the checkpoint names."""
    import transformers

    from whence.models import attentive

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
    _check_index(origin)
    named = (getattr(config, "architectures", None) or [""])[0]
    # Only what the checkpoint says it is: a head made up on the spot would be explained as if it were trained.
    kind = getattr(transformers, named, None) or getattr(attentive, named, None)
    kind = kind or transformers.AutoModel
    try:
        with quiet():
            model, report = kind.from_pretrained(
                origin.where,
                config=config,
                use_safetensors=True,
                dtype=dtype,
                output_loading_info=True,
                **origin.options,
            )
    except Exception as error:  # as above: a dozen classes, one question
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


def _check_index(origin: Origin) -> None:
    """Refuse an index of safetensors shards that names something else: it would be opened as a pickle."""
    from transformers.utils import cached_file

    try:
        with quiet():
            path = cached_file(
                origin.where,
                "model.safetensors.index.json",
                **origin.options,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
        shards = json.loads(Path(path).read_text())["weight_map"].values() if path else ()
        wrong = sorted({str(shard) for shard in shards if not str(shard).endswith(".safetensors")})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownModel(
            f"The index of the weights of {origin.name!r} cannot be read: {error}"
        ) from None
    if wrong:
        raise UnsafeWeights(
            f"The weights of {origin.name!r} are said to be safetensors, but their index names {wrong[0]!r}. "
            "whence reads safetensors only, and does not trust such a model."
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
    has_files = any(any(folder.glob(pattern)) for pattern in ("*token*", "*vocab*", "*.model"))
    if folder.is_dir() and not has_files and not asked:
        return None
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(
                origin.where, trust_remote_code=False, **origin.options
            )
    except Exception as error:  # as above
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

    try:
        with quiet():
            # One backend everywhere: the other needs torchvision, and blends pixels a little differently.
            return AutoImageProcessor.from_pretrained(
                origin.where, trust_remote_code=False, backend="pil", **origin.options
            )
    except Exception as error:  # as above
        if not asked and not (origin.folder / "preprocessor_config.json").is_file():
            return None
        raise UnknownModel(
            f"The image processor of {origin.name!r} cannot be loaded: {_reason(error)} Give another with "
            "processor=..., or remove preprocessor_config.json to explain encoded pixel_values."
        ) from None
