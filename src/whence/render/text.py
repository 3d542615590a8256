"""An explanation as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping
from typing import Any

from whence.view.heat import strongest
from whence.view.scale import scale_in
from whence.view.segments import of_payload
from whence.view.shade import target_name
from whence.view.words import words_note

# In which unit scores are, as it stands beside them.
_UNITS = {
    "logit": ", in logits",
    "probability": ", in parts of a probability",
    "value": ", in units of the output",
    "share": ", in parts of a whole",
    "relative": ", without a unit",
}


def unit_words(explanation: Mapping[str, Any]) -> str:
    """Say in which unit an explanation's scores are; of one from an older file nobody knows."""
    scale = explanation.get("scale")
    return "" if scale is None else _UNITS[scale["unit"]]


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


def share(probability: float) -> str:
    """Write a probability; a whole answer's may be far below any percent, and is still not nothing."""
    return (
        f"{probability:.1%}" if probability >= 0.0005 or not probability else f"{probability:.1e}"
    )


def headline(payload: dict[str, Any]) -> str:
    """Say what was predicted, and what is explained if that is something else."""
    prediction, target = payload["prediction"], payload["target"]
    if prediction["probability"] is None:
        said = f"{prediction['label']} = {prediction['logits'][prediction['index']]:.4g}"
    else:
        said = f"{prediction['label']} ({share(prediction['probability'])})"
    if target.get("against") or target["index"] != prediction["index"]:
        said += f"; explained: {target_name(target)}"
    if payload["model"]["class"].endswith("ForTokenClassification") and payload.get("read"):
        said = f"{read_at(payload)}: {said}"
    return visible(said)


def read_at(payload: dict[str, Any]) -> str:
    """Return the words at which the model was read, from the first to the last; nothing if it was as a whole."""
    places = set(payload.get("read", ()))
    words = [word for word in payload["words"] if places.intersection(word["tokens"])]
    if not words:
        return visible(" ".join(payload["tokens"][place]["text"] for place in sorted(places)))
    first, last = words[0], words[-1]
    source = payload["input"]["pair" if first["segment"] else "text"]
    if source is None or first["start"] is None:
        return visible(" ".join(word["text"] for word in words))
    return visible(source[first["start"] : last["end"]])


def ranked(
    payload: dict[str, Any], explanation: dict[str, Any], top: int
) -> list[tuple[str, float]]:
    """Return the `top` words, or patches of a picture, that count most, with their scores."""
    scores = explanation["word_scores"]
    if payload.get("picture"):
        patches = strongest(explanation["scores"], payload["picture"]["grid"], top)
        return [(str(patch), patch.score) for patch in patches]
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


def segments(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Say how an explanation is divided between the two texts of a pair; of a single text, nothing.

    What does not add up has no total.
    """
    adds_up = explanation.get("words_by", "sum") == "sum"
    found = of_payload(payload, explanation)
    tokens = sum(one.tokens for one in found)
    parts = []
    for name, one in zip(("first", "second"), found, strict=False):
        size = "no score" if one.share is None else f"{one.share:.0%} of all scores by size"
        chance = f"{one.tokens / tokens:.0%} of the tokens"
        total = f" {one.total:+.3g}," if adds_up else ""
        parts.append(f"{name} text{total} {size} ({chance})")
    return "; ".join(parts)


def notes(payload: dict[str, Any], explanation: dict[str, Any]) -> list[str]:
    """Return what stands below the words of an explanation, as far as there is anything to say."""
    contrast = visible(payload["provenance"].get("contrast", ""))  # how, where it is no plain one
    said = (
        contrast,
        words_note(payload, explanation),
        segments(payload, explanation),
        axioms(explanation),
    )
    return [note for note in said if note]


def cut(payload: Mapping[str, Any]) -> str:
    """Say that the text was truncated, if it was, and what else must be known of it."""
    dropped, text = payload["input"].get("dropped", 0), payload["input"]["text"] or ""
    own = [token["start"] for token in payload["tokens"] if token["start"] is not None]
    # A language model's prompt gives way at its beginning, any other text at its end.
    where = "first" if own and text[: own[0]].strip() else "last"
    said = [f"The {where} {dropped} tokens did not fit and were cut off."] if dropped else []
    said += [visible(one["message"]) for one in payload.get("warnings", ())]
    return " ".join(said)


def plain(payload: dict[str, Any], top: int = 10) -> str:
    """Write a payload as lines of text."""
    lines = [f"{visible(payload['model']['name'])}: {headline(payload)}"]
    if note := cut(payload):
        lines.append(note)
    for explanation in payload["explanations"]:
        scale = scale_in(explanation, "patch" if payload.get("picture") else "word")
        method, target = visible(explanation["method"]), visible(target_name(payload["target"]))
        lines.append(f"{method} for {target}{unit_words(explanation)}:")
        words = ranked(payload, explanation, top)
        width = max((len(word) for word, _ in words), default=0)
        lines += [f"  {word:<{width}}  {score:+.3g}" for word, score in words]
        lines += [f"  ({scale['note']})"] if scale["note"] else []
        lines += [f"  ({note})" for note in notes(payload, explanation)]
    return "\n".join(lines)


"""What a table, a drawing or a page says of its data set: its name, and what was drawn from how many rows."""

from collections.abc import Mapping
from typing import Any

from whence.report.text import visible

_ROLES = (("text", "texts"), ("pair", "second texts"), ("label", "labels"))


def data_told(facts: Mapping[str, Any] | None) -> str:
    """Name a data set, how many of its rows were taken, and the columns; nothing where nobody noted it."""
    if not facts or not {"name", "rows", "drawn", "seed"} <= facts.keys():
        return ""
    columns = [
        f"{what} from {_line(facts[role])!r}"
        for role, what in _ROLES
        if facts.get(role) is not None
    ]
    return "; ".join([f"{_line(facts['name'])}: {rows_told(facts)}", *columns])


def rows_told(facts: Mapping[str, Any]) -> str:
    """Say how many rows were taken from how many, and how."""
    rows, drawn, seed = facts["rows"], facts["drawn"], facts["seed"]
    of = "" if rows is None else f" of {rows:,}"
    if drawn is None:
        return "all rows" if rows is None else "its only row" if rows == 1 else f"all {rows:,} rows"
    if seed is None:
        return f"the first {drawn:,}{of} rows"
    return f"{drawn:,}{of} rows drawn with seed {seed}"


def drawn_told(setting: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Say that examples were drawn, and by which seed, where a limit left some of those given out."""
    limit = setting.get("limit")
    if not isinstance(limit, int) or limit >= data["given"]:
        return ""
    count = "" if limit == data["used"] else f"{limit:,} "  # some of them may be of no use
    return f", {count}drawn with seed {setting['seed']}"


def _line(text: Any) -> str:
    return " ".join(visible(str(text)).split())
