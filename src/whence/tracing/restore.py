"""Context managers for evaluation mode with frozen weights, and for alterations of a model, undone on exit."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from whence.models.facts import get_facts, hold_parts
from whence.models.fingerprint import override_fingerprint


@contextmanager
def restore_on_exit(model: torch.nn.Module) -> Iterator[ExitStack]:
    """Put `model` into evaluation mode with frozen weights; restore everything on exit.

    Yields a stack, on which hooks and other changes of the model register their removal.
    """
    with hold_parts(model) as parts, ExitStack() as stack:
        training = [module for module in parts.modules if module.training]
        weights = parts.list_parameters()
        frozen = [weight for weight in weights if weight.requires_grad]
        on_cuda = weights if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
        devices = {weight.get_device() for weight in on_cuda if weight.is_cuda}
        switches = [
            (module, module.attention_type, dict(module._modules))
            for module in parts.attention_switches
        ]
        stack.enter_context(torch.random.fork_rng(devices=sorted(devices)))
        # The caller may be in no_grad or inference_mode; a trace needs gradients.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())

        def restore() -> None:
            for module, kind, children in switches:
                if module.attention_type != kind:
                    module.attention_type = kind
                    module._modules.update(children)
            for module in parts.modules:
                if module.training:  # switched inside the block
                    module.training = False
            for module in training:
                module.training = True
            for weight in frozen:
                weight.requires_grad_(True)

        stack.callback(restore)
        for module in training:
            module.training = False
        for weight in frozen:
            weight.requires_grad_(False)
        yield stack


@contextmanager
def alter_model(model: torch.nn.Module, alteration: str) -> Iterator[ExitStack]:
    """Lock the model for an alteration, and give it another fingerprint inside the block.

    Yields a stack, on which changes of the model register their removal.
    """
    with get_facts(model).lock, override_fingerprint(model, alteration), ExitStack() as stack:
        yield stack
