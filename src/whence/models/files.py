"""The files of a model: which of them may be read, which hold the weights, and what the weights' headers say.

Safetensors are data: reading them runs nothing. What is left to fear is that a folder of somebody else's points at
other files of this machine, so that a file must lie in the model's folder or directly in a folder beside it (a
fine-tuned model may share shards with the one that it was made from), wherever links lead. The Hub's cache links from
`snapshots/REVISION` to `blobs`, two folders up; that is the model's own, too.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import UnknownModel, UnsafeWeights

# What transformers may open in a folder: configuration, weights, vocabularies and templates.
_READ = {
    ".json", ".safetensors", ".txt", ".model", ".jinja", ".bpe", ".vocab", ".spm", ".tiktoken",
}  # fmt: skip
_TEMPLATES = "additional_chat_templates/*"  # the one folder within that a tokenizer looks into
_WHAT_ELSE = (
    "Put the file itself there, or load the model yourself and pass the object: "
    "whence.load(model, tokenizer=...)."
)


@dataclass(frozen=True)
class Tensor:
    """A tensor as the header of its file describes it."""

    dtype: str  # as safetensors writes it: F32, BF16, I8, ...
    shape: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def bits(self) -> int:
        """How many bits its numbers take."""
        width = "".join(sign for sign in self.dtype.partition("_")[0] if sign.isdigit())
        return self.numbers * int(width or 8)  # BOOL takes a byte

    @property
    def is_quantised(self) -> bool:
        """Whether its numbers are whole, or real ones of less than 16 bits: they need a scale to mean anything."""
        kind = self.dtype.partition("_")[0]  # F8_E4M3 is one of several of 8 bits
        return kind.startswith(("I", "U")) or kind in {"F8", "F6", "F4"}


def check_files(folder: Path, name: str) -> None:
    """Refuse a folder in which a file that would be read is a pipe or a device, or a link to somewhere else."""
    for path in sorted([*folder.iterdir(), *folder.glob(_TEMPLATES)]):
        if path.suffix in _READ and path.exists() and not path.is_dir():
            check_file(path, folder, name)


def check_file(path: Path, folder: Path, name: str) -> None:
    """Refuse a file of a model that is a pipe or a device, or that lies elsewhere on this machine."""
    shown = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
    if not path.exists():
        raise UnknownModel(f"The model {name!r} names {shown!r}, and there is no such file.")
    if not path.is_file():
        raise UnsafeWeights(
            f"The model {name!r} names {shown!r}, which is no regular file: reading it might never end. {_WHAT_ELSE}"
        )
    home, own = folder.resolve(), path.resolve()
    beside = own.parent.parent == home.parent
    cached = home.parent.name == "snapshots" and own.parent == home.parent.parent / "blobs"
    if not (own.is_relative_to(home) or beside or cached):
        raise UnsafeWeights(
            f"The model {name!r} names {shown!r}, which lies neither in its folder nor in one beside it. whence "
            f"reads no other files of this machine because a model says so. {_WHAT_ELSE}"
        )


def shards(index: Path, name: str) -> list[str]:
    """Return the files that an index of weights names; all of them must be safetensors."""
    try:
        # A number stands for no file, but a pickle may have any name.
        named = sorted({str(one) for one in json.loads(index.read_text())["weight_map"].values()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownModel(
            f"The index of the weights of {name!r} cannot be read: {error}"
        ) from None
    if wrong := [one for one in named if not one.endswith(".safetensors")]:
        raise UnsafeWeights(
            f"The weights of {name!r} are said to be safetensors, but their index names {wrong[0]!r}. "
            "whence reads safetensors only, and does not trust such a model."
        )
    return named


def headers(files: Iterable[Path], name: str) -> dict[str, Tensor]:
    """Return what safetensors files say that they hold, without reading any of it."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, Tensor] = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as opened:
                for key in opened.keys():  # noqa: SIM118 (it is no mapping)
                    one = opened.get_slice(key)
                    found[key] = Tensor(str(one.get_dtype()), tuple(one.get_shape()))
        except (SafetensorError, OSError, ValueError) as error:
            raise UnknownModel(
                f"The weights of {name!r} cannot be loaded: {path.name} is no safetensors file ({error})."
            ) from None
    return found


# Configurations write out one entry for each of these when they are made, and models one module.
_COUNTED = ("labels", "layer", "layers", "blocks", "experts")
_FEW = 1000  # entries that cost nothing


def large_counts(values: Any, path: str = "") -> dict[str, float]:
    """Return the settings of a configuration, by name, that ask for more than a thousand labels or layers."""
    if not isinstance(values, Mapping):
        return {}
    found: dict[str, float] = {}
    for key, value in values.items():
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, int | float) and str(key).endswith(_COUNTED) and value > _FEW:
            found[where] = value
        found |= large_counts(value, where)
    return found


def check_counts(counts: Mapping[str, float], tensors: Mapping[str, Tensor], name: str) -> None:
    """Refuse more labels or layers than the weights can have: each takes a tensor, or a row of one."""
    rows = max((max(one.shape, default=0) for one in tensors.values()), default=0)
    for setting, count in counts.items():
        if count > max(rows, len(tensors)):
            raise UnknownModel(
                f"The configuration of {name!r} says {setting}={count:,}, and its weights are {len(tensors):,} "
                f"tensors of at most {rows:,} rows: they do not belong together. Correct config.json."
            )


_SLACK = 1 << 26  # numbers; 256 MB in float32, which no file has to answer for


def check_fit(
    kind: Any, config: Any, stored: Mapping[str, Tensor], name: str
) -> dict[str, tuple[int, ...]]:
    """Refuse weights that cannot be those of the model, before there is memory for it; return the sizes it has.

    A model that is much larger than its file, by a number of labels, words or units that somebody wrote into its
    configuration, would be allocated first and found incomplete later. Quantised weights would be read as if they
    were the numbers themselves, where the configuration does not say how they are to be read.
    """
    if not stored:
        return {}
    try:
        with torch.device("meta"):  # sizes without memory
            model = kind(deepcopy(config))
    except Exception:  # whatever is wrong, transformers will meet it again and say so
        return {}
    own = {key: tuple(one.shape) for key, one in model.named_parameters()}
    wanted = sum(one.numel() for one in (*model.parameters(), *model.buffers()))
    packed = getattr(config, "quantization_config", None) is not None
    # What is tied is counted twice; what is packed takes a bit at least.
    have = sum(one.bits if packed else 2 * one.numbers for one in stored.values())
    if wanted > have + _SLACK:
        key, largest = max(own.items(), key=lambda item: prod(item[1]))
        beside = f" and is {stored[key].shape} there" if key in stored else ""
        there = sum(one.numbers for one in stored.values())
        raise UnknownModel(
            f"The configuration of {name!r} asks for {wanted:,} numbers, and its weights hold {there:,}: {key!r} "
            f"would be {largest}{beside}. They do not belong together. Correct config.json."
        )
    whole = [
        key
        for key, one in stored.items()
        if one.is_quantised and (key in own or key.endswith("weight"))
    ]
    if whole and not packed:
        raise UnknownModel(
            f"The weights of {name!r} are quantised ({whole[0]!r} is {stored[whole[0]].dtype}), and its "
            "configuration does not say how to read them. Load the model that they were made from, in float32, "
            "bfloat16 or float16."
        )
    return own


def misfit(own: Mapping[str, tuple[int, ...]], stored: Mapping[str, Tensor]) -> str:
    """Name the first tensor that has another size in the file than in the model."""
    for key, shape in own.items():
        if key in stored and stored[key].shape != shape:
            return f"{key!r} is {stored[key].shape} there, and {shape} by the configuration. Correct config.json."
    return "they have other sizes than the configuration says. Correct config.json."
