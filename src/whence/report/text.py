"""An explanation as plain text: for a log, a pipe, or print()."""

from typing import Any

from whence.view.shade import target_name


def visible(text: str) -> str:
    """Replace control characters: a text must not be able to move the cursor or recolour the screen."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


_STEERING = dict.fromkeys(
    [*range(9), *range(0xB, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)],
    "�",
)  # fmt: skip


def tame(html: str) -> str:
    """Replace control characters and those that turn the direction of text round; joiners within words stay."""
    return html.translate(_STEERING)


def headline(payload: dict[str, Any]) -> str:
    """Say what was predicted, and what is explained if that is something else."""
    prediction, target = payload["prediction"], payload["target"]
    if prediction["probability"] is None:
        said = f"{prediction['label']} = {prediction['logits'][prediction['index']]:.4g}"
    else:
        said = f"{prediction['label']} ({prediction['probability']:.1%})"
    if target.get("against") or target["index"] != prediction["index"]:
        said += f"; explained: {target_name(target)}"
    return visible(said)


def ranked(
    payload: dict[str, Any], explanation: dict[str, Any], top: int
) -> list[tuple[str, float]]:
    """Return the `top` words that count most, with their scores."""
    scores = explanation["word_scores"]
    order = sorted(range(len(scores)), key=lambda i: -abs(scores[i]))
    return [(visible(payload["words"][i]["text"]), scores[i]) for i in order[:top]]


def axioms(explanation: dict[str, Any]) -> str:
    """List an explanation's axiom residuals; those of layers ("conservation.layer0") stand together."""
    alone, layered = [], dict[str, list[str]]()
    for name, residual in explanation["axioms"].items():
        axiom, _, layer = name.replace("_", " ").partition(".")
        if layer:
            layered.setdefault(axiom, []).append(f"{residual:.1e}")
        else:
            alone.append(f"{axiom}: off by {residual:.1e}")
    layers = [f"{axiom} by layer: off by {', '.join(off)}" for axiom, off in layered.items()]
    return "; ".join([*alone, *layers])


def cut(payload: dict[str, Any]) -> str:
    """Say that the text was truncated, if it was."""
    dropped = payload["input"].get("dropped", 0)
    return f"The last {dropped} tokens did not fit and were cut off." if dropped else ""


def plain(payload: dict[str, Any], top: int = 10) -> str:
    """Write a payload as lines of text."""
    lines = [f"{visible(payload['model']['name'])}: {headline(payload)}"]
    if note := cut(payload):
        lines.append(note)
    for explanation in payload["explanations"]:
        lines.append(f"{explanation['method']} for {visible(target_name(payload['target']))}:")
        words = ranked(payload, explanation, top)
        width = max((len(word) for word, _ in words), default=0)
        lines += [f"  {word:<{width}}  {score:+.3g}" for word, score in words]
        if residuals := axioms(explanation):
            lines.append(f"  ({residuals})")
    return "\n".join(lines)
