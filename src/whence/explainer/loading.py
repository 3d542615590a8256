"""Making an explainer of whatever names a model."""

from dataclasses import replace
from typing import Any

import torch

from whence.capture import compile_forward
from whence.explainer.explainer import Explainer
from whence.models import load as load_model
from whence.models import with_infiller


def load(
    what: Any,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    mlm: Any = None,
    checkpoint: bool = False,
    compile: bool = False,
) -> Explainer:
    """Make an explainer of a built-in model, a folder, a Hub id or a model object.

    `dtype` is a torch dtype or its name. None keeps the checkpoint's, except that half precision is
    computed in float32 on a CPU. `device` None takes the GPU if there is one. A model object stays where and
    as it is: another device or dtype means a copy. A picture model comes with its image `processor`; to a model
    object, give its own, or a folder or Hub id that has it.

    `mlm` is a masked language model with the same vocabulary: a built-in name ("reviews-base" for "reviews"), a
    folder, a Hub id or a model object. With it, tokens can be removed by drawing others instead: remove="draw".

    `checkpoint` keeps only the input of each block of the model, and runs the block again when its gradient is taken:
    a second forward pass for a fraction of the memory, and the same numbers.

    `compile` lets `torch.compile` take the model's bare forward pass, for methods and tests that run it many times:
    equal to rounding. The first pass takes a minute or several, again for inputs one at a time; where it cannot be
    compiled, a warning says why, and it runs as it is. A model object is compiled for every explainer that has it.
    """
    loaded = load_model(
        what,
        tokenizer=tokenizer,
        processor=processor,
        device=device,
        dtype=dtype,
        revision=revision,
    )
    loaded = replace(loaded, checkpoint=checkpoint)
    if compile:
        compile_forward(loaded.model)
    return Explainer(loaded if mlm is None else with_infiller(loaded, mlm))
