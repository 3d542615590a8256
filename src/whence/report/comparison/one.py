"""Two models on one input as a piece of HTML: what shows where no script runs."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.audit.style import STYLE as SECTIONS
from whence.report.comparison.wording import names, one_line
from whence.report.sheet import cell
from whence.report.strip import strips
from whence.report.text import tame
from whence.view.shade import shades

Facts = Mapping[str, Any]

_MOST = 10  # heads


def one_fragment(found: Facts) -> str:
    """Return what two models did with one input, for a notebook cell."""
    one, other = names(found)
    rows = [
        _prediction(name, said)
        for name, said in zip((one, other), found["predictions"], strict=True)
    ]
    heads = [
        (f"{head['layer']}.{head['head']}", f"{head['divergence']:.3f}", f"{head['decision']:.3f}")
        for head in found["changed"][:_MOST]
    ]
    body = [
        "<section>",
        f"<h2>{escape(one)} and {escape(other)}</h2>",
        *(f"<p>{escape(text)}</p>" for text in _texts(found["input"])),
        _table(("model", "prediction"), rows),
        *(_strip(found, side, name) for side, name in enumerate((one, other))),
        f"<p>{escape(_moved(found))}</p>",
        _table(("most changed head", "divergence, bits", "of the decision's rows"), heads)
        if heads
        else "",
        *(
            f'<p class="dim">{escape(one_line(warned["message"]))}</p>'
            for warned in found["warnings"]
        ),
        "</section>",
    ]
    return tame(cell("\n".join(part for part in body if part), SECTIONS))


def _texts(source: Facts) -> list[str]:
    return [one_line(source[part]) for part in ("text", "pair") if source[part] is not None]


def _prediction(name: str, said: Facts | None) -> tuple[str, str]:
    if said is None:
        return name, "none: it has no classification head"
    share = said["probability"]
    value = (
        f"{said['logits'][0]:.4g}" if share is None else f"{one_line(said['label'])} {share:.1%}"
    )
    return name, value


def _strip(found: Facts, side: int, name: str) -> str:
    """Return the text tinted by one model's scores, where it has any."""
    explanation = found["explanations"][side]
    if explanation is None:
        return ""
    payload = {**found, "target": found["flows"][side]["target"]}
    tints = shades(payload, explanation)
    told = f"{escape(name)}, {escape(explanation['method'])}"
    return f'<h3>{told}</h3><p class="dim">{escape(tints.legend)}</p>{strips(payload, explanation, tints)}'


def _moved(found: Facts) -> str:
    layers = found["layers"]
    most = max(range(len(layers)), key=lambda layer: layers[layer])
    if not layers[most]:
        return "Both attend alike to the last bit."
    bits = f"{layers[most]:.3f} bits, in the mean over its heads and rows"
    return f"Attention is farthest apart in layer {most}: {bits}."


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
