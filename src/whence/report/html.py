"""One HTML file: no script, no network, every piece of text escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.picture.colour import SCALE as PICTURE_SCALE
from whence.report.picture.html import STYLE, every_patch, figures, key, patch_table
from whence.report.picture.maps import alike, predicted
from whence.report.sheet import cell, provenance, sheet
from whence.report.strip import strips, token_table, word_table
from whence.report.text import cut, notes
from whence.report.text import share as percent
from whence.view.shade import SCALE, shades, target_name


def page(
    payloads: Sequence[dict[str, Any]], title: str = "whence: why did the model say that?"
) -> str:
    """Return a whole page about one input or several."""
    groups = alike(payloads)
    scales = dict.fromkeys(PICTURE_SCALE if own[0].get("picture") else SCALE for own in groups)
    return sheet(title, "\n".join(map(_section, groups)), " ".join(scales), STYLE)


def fragment(payload: dict[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return cell(_section([payload]), STYLE)


def _section(payloads: Sequence[dict[str, Any]]) -> str:
    """Return what is said about one input; several payloads are of several classes of one picture."""
    payload = payloads[0]
    note = cut(payload)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(predicted(payloads))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}</p>',
            f"<p><strong>{escape(note)}</strong></p>" if note else "",
            _probabilities(payload["prediction"]),
            figures(payloads) if payload.get("picture") else "",
            *(_explanation(one, told) for one in payloads for told in one["explanations"]),
            provenance(payload),
            "</section>",
        ]
    )


def _probabilities(prediction: dict[str, Any]) -> str:
    shares = sorted(prediction["probabilities"].items(), key=lambda pair: -pair[1])[:8]
    rows = "".join(
        f'<span>{escape(label)}</span><i style="width: {share * 100:.2f}%"></i><span>{percent(share)}</span>'
        for label, share in shares
    )
    return f'<div class="share">{rows}</div>' if rows else ""


def _explanation(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    chosen = ", ".join(f"{name} = {value}" for name, value in explanation["params"].items())
    passes, seconds = explanation["passes"], _seconds(explanation)
    told = _of_patches if payload.get("picture") else _of_words
    shown, summary, tables = told(payload, explanation)
    return "\n".join(
        [
            *shown,
            *(f'<p class="dim">{escape(note)}</p>' for note in notes(payload, explanation)),
            f"<details><summary>{summary}</summary>",
            *tables,
            f'<p class="dim">{_explained(payload, explanation)}; {escape(chosen) or "no parameters"}; '
            f"forward passes {passes['forward']:d}, backward passes {passes['backward']:d}{seconds}</p>",
            "</details>",
        ]
    )


def _explained(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Say what is explained: the logit or the probability of the target."""
    of = explanation.get("of", payload["target"]["of"])
    return f"of the {of} of {escape(target_name(payload['target']))}"


def _seconds(explanation: dict[str, Any]) -> str:
    """Say what it took, unless nobody knows: a run keeps no times with its results."""
    return "" if explanation["seconds"] is None else f", {explanation['seconds']:.3f} s"


_Told = tuple[list[str], str, list[str]]  # what is shown, and what is folded away under which name


def _of_words(payload: dict[str, Any], explanation: dict[str, Any]) -> _Told:
    tints = shades(payload, explanation)
    shown = [
        f"<h3>{escape(explanation['method'])}</h3>",
        f'<p class="dim">{escape(tints.legend)}</p>',
        strips(payload, explanation, tints),
    ]
    tables = [word_table(payload, explanation, tints.words), token_table(payload, explanation)]
    return shown, "All words and tokens", tables


def _of_patches(payload: dict[str, Any], explanation: dict[str, Any]) -> _Told:
    shown = [
        f"<h3>{escape(explanation['method'])} for {escape(target_name(payload['target']))}</h3>",
        key(payload, explanation),
        patch_table(payload, explanation),
    ]
    return shown, "All patches, as they lie in the picture", [every_patch(payload, explanation)]
