"""Zoo models for the tests of altered models (test_alter*.py): construction, logits, copies of weights."""

import torch

from tests import zoo

EVERY = (*zoo.ARCHITECTURES, "vit")
# Modules that drop out with p > 0 in the zoo: the others have p = 0, none, or functions instead of modules.
WITH_DROPOUT = frozenset(zoo.ARCHITECTURES) - {
    "modernbert", "llama", "qwen3", "gemma3", "bart",
}  # fmt: skip


def make(name):
    return zoo.make_vit() if name == "vit" else zoo.make(name)


def logits_of(model, name, row=0):
    if name == "vit":
        pixels = torch.randn(1, *zoo.PIXELS, generator=torch.Generator().manual_seed(row)).double()
        inputs = {"pixel_values": pixels}
    else:
        inputs = {"input_ids": torch.tensor([zoo.rows(name)[row]["input_ids"]])}
    with torch.no_grad():
        return model(**inputs).logits


def weights_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}
