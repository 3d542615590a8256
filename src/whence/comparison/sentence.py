"""A comparison in a few sentences, every figure with its interval and n."""

from collections.abc import Mapping
from typing import Any

from whence.report.comparison.wording import WHICH, names
from whence.report.figures import digits_of, interval


def sentence(payload: Mapping[str, Any]) -> str:
    """Say what the comparison found."""
    used = payload["data"]["used"]
    if identical(payload):
        both = " and ".join(_names(payload))
        return f"{both} attend alike to the last bit on {_inputs(used)}: no head diverges from its twin."
    parts = [_layers(payload, used), _heads(payload, used), _flow(payload, used), _words(payload)]
    return " ".join(part for part in parts if part)


def identical(payload: Mapping[str, Any]) -> bool:
    """Whether no head of one model attends otherwise than its twin, on any input."""
    return all(one["divergence"]["mean"] == 0 for one in payload["heads"])


def _layers(payload: Mapping[str, Any], used: int) -> str:
    layers = payload["layers"]
    found = payload["changed"]["layers"]
    first = found[0]
    least = min(layers, key=lambda one: float(one["divergence"]["mean"]))
    one, other = _names(payload)
    said = (
        f"Over {_inputs(used)}, the attention of {other} is farthest from that of {one} in layer {first['layer']} "
        f"({_bits(first['divergence'], used)})"
    )
    if len(layers) > 1:
        said += f" and nearest in layer {least['layer']} ({_bits(least['divergence'], used)})"
    strangers = layers[first["layer"]]["strangers"]
    if strangers["n"]:
        said += (
            f"; two different heads of layer {first['layer']} are {_bits(strangers, used)} apart"
        )
    return f"{said}."


def _heads(payload: Mapping[str, Any], used: int) -> str:
    changed = payload["changed"]
    first = changed["heads"][0]
    said = f"The most changed head is {_name(first)} ({_bits(first['divergence'], used)})"
    others = changed["equal_heads"] - 1
    if not changed["enough"]:
        return f"{said}; {_inputs(used)} {'is' if used == 1 else 'are'} too few to tell it from any other."
    if not others:
        return f"{said}, surely more than any other."
    return f"{said}; {others} other{'s' * (others > 1)} cannot be told from it."


def _flow(payload: Mapping[str, Any], used: int) -> str:
    overlap = payload["overlap"]
    if not overlap["jaccard"]["n"]:
        return ""
    said = (
        f"Of the edges {WHICH[overlap['specials']]} that carry {overlap['coverage']:.0%} of what all such edges "
        f"carry, the models share {_figure(overlap['jaccard'], used)} (Jaccard index; random edges: "
        f"{_figure(overlap['chance'], used)})"
    )
    other = overlap["other"]
    if other["jaccard"]["n"]:
        said += (
            f"; of those {WHICH[other['specials']]}, {_figure(other['jaccard'], used)} (random edges: "
            f"{_figure(other['chance'], used)})"
        )
    return f"{said}."


def _words(payload: Mapping[str, Any]) -> str:
    found = payload["attribution"]
    if found is None or not found["tau"]["n"]:
        return ""
    return (
        f"By {found['method']} they rank the words alike with a mean tau-b of "
        f"{_figure(found['tau'], payload['data']['used'])} (random rankings: 0)."
    )


def _names(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Name the models; two of one name are told apart by their order."""
    one, other = names(payload)
    return (one, other) if one != other else (f"the first {one}", f"the second {other}")


def _inputs(used: int) -> str:
    return "1 input" if used == 1 else f"{used} inputs"


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['layer']}.{one['head']}"


def _bits(one: Mapping[str, Any], used: int) -> str:
    return f"{_figure(one, used)} bits"


def _figure(one: Mapping[str, Any], used: int) -> str:
    return interval(one, digits_of([one]), used)
