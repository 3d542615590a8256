"""The parts of a model in the order in which a prediction depends on them, from the output down to the input."""

from torch import nn

HEAD, EMBEDDINGS = "head", "embeddings"


def stages(model: nn.Module) -> tuple[str, ...]:
    """Name the stages of a cascade: the head, the layers from the last to the first, the embeddings.

    A layer is a member of a list of modules that lies in no other such list; a decoder's come before its encoder's.
    Tables of embeddings, and what is called after them, are the embeddings; all that is neither is the head.
    """
    return tuple(grouped(model))


def grouped(model: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """Return the parameters of each stage by name; every parameter is in one stage, and no stage is empty."""
    layers, tables = _layers(model), _tables(model)
    order = [HEAD, *reversed(layers), EMBEDDINGS]
    found: dict[nn.Parameter, tuple[int, str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        stage, first = found.get(parameter, (0, name))
        # What several stages share changes with the last of them, so that the ones before stay apart.
        found[parameter] = (max(stage, order.index(_stage(name, layers, tables))), first)
    groups: dict[str, dict[str, nn.Parameter]] = {stage: {} for stage in order}
    for parameter, (stage, name) in found.items():
        groups[order[stage]][name] = parameter
    return {stage: group for stage, group in groups.items() if group}


def _stage(name: str, layers: list[str], tables: set[str]) -> str:
    for layer in layers:
        if name.startswith(layer + "."):
            return layer
    module = name.rpartition(".")[0]
    return EMBEDDINGS if module in tables or "embed" in name.lower() else HEAD


def _layers(model: nn.Module) -> list[str]:
    """Name the members of the outermost lists of modules, from the input to the output."""
    parts = model.named_modules()
    lists = {name: part for name, part in parts if isinstance(part, nn.ModuleList)}
    return [
        f"{name}.{number}"
        for name, part in lists.items()
        if not any(name.startswith(f"{other}.") for other in lists)
        for number in range(len(part))
    ]


def _tables(model: nn.Module) -> set[str]:
    return {name for name, part in model.named_modules() if isinstance(part, nn.Embedding)}
