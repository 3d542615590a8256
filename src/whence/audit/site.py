"""Where in a model attention is looked at and replaced: a layer, a head of it, or all layers at once."""

import re
from dataclasses import dataclass

from whence.core.errors import BadParameter

WORDS = ("last", "all", "layers", "heads")
_ALLOWED = (
    "last (the last layer, all its heads), all (all layers at once), layers (each layer by itself), heads (each head "
    "by itself), a layer such as 3, or a head of it such as 3.0"
)


@dataclass(frozen=True)
class Site:
    """Some layers and all their heads, or one head of one layer."""

    layers: tuple[int, ...]
    head: int | None = None
    name: str = ""

    def rest(self, layers: int, heads: int) -> str:
        """Name what other attention a model of so many layers and heads has, if it has some."""
        many, kind = layers * heads - 1, "head"
        if self.head is None:
            many, kind = layers - len(self.layers), "layer"
        return f"the other {f'{many} {kind}s' if many > 1 else kind}" if many else ""


def check_site(asked: str) -> None:
    """Refuse what can be no site of any model, before one is loaded."""
    if asked not in WORDS and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", asked):
        raise BadParameter(f"There is no site {asked!r}. Allowed: {_ALLOWED}.")


def sites(asked: str, layers: int, heads: int, *, pooled: bool) -> tuple[Site, ...]:
    """Return the sites of a model, the one that verdicts are about first.

    With "layers" and "heads" that is the last layer, and the others come after it. A model with one attention over
    its tokens, as those of Jain & Wallace, has one site.
    """
    check_site(asked)
    if pooled:
        return (Site((0,), None, "the attention"),)
    last = _layer(layers - 1)
    if asked == "last":
        return (last,)
    if asked == "all":
        return (Site(tuple(range(layers)), None, "all layers"),)
    if asked == "layers":
        return (last, *(_layer(at) for at in range(layers - 1)))
    if asked == "heads":
        return (last, *(_head(at, head) for at in range(layers) for head in range(heads)))
    layer, _, head = asked.partition(".")
    at = int(layer) + (layers if int(layer) < 0 else 0)
    if not 0 <= at < layers or (head and int(head) >= heads):
        raise BadParameter(
            f"There is no site {asked!r}: the model has the layers 0 to {layers - 1}, each with the heads 0 to "
            f"{heads - 1}. Allowed: {_ALLOWED}."
        )
    return (_head(at, int(head)) if head else _layer(at),)


def _layer(at: int) -> Site:
    return Site((at,), None, f"layer {at}")


def _head(at: int, head: int) -> Site:
    return Site((at,), head, f"layer {at}, head {head}")
