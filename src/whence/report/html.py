"""One HTML file: no script, no network, every piece of text escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.sheet import cell, provenance, sheet
from whence.report.strip import strips, token_table, word_table
from whence.report.text import axioms, cut, headline
from whence.view.shade import SCALE, shades


def page(
    payloads: Sequence[dict[str, Any]], title: str = "whence: why did the model say that?"
) -> str:
    """Return a whole page about one input or several."""
    return sheet(title, "\n".join(_section(payload) for payload in payloads), SCALE)


def fragment(payload: dict[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return cell(_section(payload))


def _section(payload: dict[str, Any]) -> str:
    note = cut(payload)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(headline(payload))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}</p>',
            f"<p><strong>{escape(note)}</strong></p>" if note else "",
            _probabilities(payload["prediction"]),
            *(_explanation(payload, explanation) for explanation in payload["explanations"]),
            provenance(payload),
            "</section>",
        ]
    )


def _probabilities(prediction: dict[str, Any]) -> str:
    shares = sorted(prediction["probabilities"].items(), key=lambda pair: -pair[1])[:8]
    rows = "".join(
        f'<span>{escape(label)}</span><i style="width: {share * 100:.2f}%"></i><span>{share:.1%}</span>'
        for label, share in shares
    )
    return f'<div class="share">{rows}</div>' if rows else ""


def _explanation(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    tints = shades(payload, explanation)
    chosen = ", ".join(f"{name} = {value}" for name, value in explanation["params"].items())
    residuals = axioms(explanation)
    passes = explanation["passes"]
    return "\n".join(
        [
            f"<h3>{escape(explanation['method'])}</h3>",
            f'<p class="dim">{escape(tints.legend)}</p>',
            strips(payload, explanation, tints),
            f'<p class="dim">{escape(residuals)}</p>' if residuals else "",
            "<details><summary>All words and tokens</summary>",
            word_table(payload, explanation, tints.words),
            token_table(payload, explanation),
            f'<p class="dim">{escape(chosen) or "no parameters"}; forward passes {passes["forward"]:d}, '
            f"backward passes {passes['backward']:d}, {explanation['seconds']:.3f} s</p>",
            "</details>",
        ]
    )
