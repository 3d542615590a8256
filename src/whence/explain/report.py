"""What is said about a generated answer, the same on every surface: its rows, its columns and their sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.report.text import cut, visible
from whence.view.scale import Scale, scale_of

Facts = Mapping[str, Any]

BEFORE = "(said before)"
CHANCE = (
    "share: the part of the size of all scores that fell on the piece, of the prompt's text; by length: the "
    "part that an explanation which knows nothing would give it."
)


@dataclass(frozen=True)
class Row:
    """One piece of the prompt, several together, or what was said before."""

    text: str
    cells: tuple[float, ...]  # one for each part of the answer
    total: float
    share: float | None = None
    chance: float | None = None
    special: bool = False
    marked: bool = False


def one_line(text: str, most: int = 0) -> str:
    """Return a text on one line, cut in its middle where it is longer than `most` characters."""
    line = " ".join(visible(text).split()) or repr(text)[1:-1].strip() or "(space)"
    if not most or len(line) <= most:
        return line
    head = (most - 1) * 2 // 3
    tail = most - 1 - head
    return f"{line[:head]}…{line[-tail:]}" if tail else f"{line[:head]}…"


def headline(payload: Facts) -> str:
    """Say what the model went on with."""
    said = payload["text"]
    if said is None:
        said = " ".join(token["text"] for token in payload["output_tokens"])
    return one_line(said) or "(nothing)"


def setting(payload: Facts) -> str:
    """Say how it was explained."""
    count = len(payload["output_tokens"])
    rather = ", each rather than the likeliest other" if payload["contrast"] else ""
    return f"{payload['method']}, by {payload['granularity']}, {count} token{'s' * (count != 1)}{rather}"


def legend(payload: Facts) -> str:
    """Say what the cells mean."""
    what = (
        "blue speaks for the part of the answer above it, orange against it"
        if payload["signed"]
        else "the stronger, the larger the score; this method has no sign"
    )
    scale = scale_in_generation(payload)
    said = f"{what}; figures are hundredths of full colour, special tokens do not set the scale; {scale['legend']}"
    return f"{said}. {scale['note']}" if scale["note"] else said


def effort(payload: Facts) -> str:
    """Say what it took."""
    passes = payload["passes"]
    return (
        f"{passes['decode']} steps to generate, {passes['forward']} forward and {passes['backward']} backward passes "
        f"to explain, {payload['seconds']:.2f} s"
    )


def scale_in_generation(payload: Facts) -> Scale:
    """Return the scale of the matrix that an answer carries; one of an older file gets one without a unit."""
    found: Scale | None = payload.get("scale")
    if found is not None:
        return found
    plain = [i for i, piece in enumerate(payload["pieces"]) if not piece["special"]]
    cells = [row[i] for row in payload["matrix"] for i in plain]
    return scale_of(cells, "relative", part="piece")


def largest(payload: Facts) -> float:
    """Return the score of full colour, for a division."""
    return scale_in_generation(payload)["full"] or 1.0


def rows(payload: Facts, most: int | None = None) -> list[Row]:
    """Return the pieces in the order of the prompt, the weakest beyond `most` as one, and what was said before."""
    pieces, matrix = payload["pieces"], payload["matrix"]
    columns = [tuple(cells[i] for cells in matrix) for i in range(len(pieces))]
    strength = [sum(map(abs, column)) for column in columns]
    order = sorted(range(len(pieces)), key=lambda i: (-strength[i], i))
    kept = sorted(order if most is None or len(order) <= most + 1 else order[:most])
    found = [
        Row(
            one_line(pieces[i]["text"]),
            columns[i],
            pieces[i]["total"],
            pieces[i]["share"],
            pieces[i]["chance"],
            pieces[i]["special"],
            pieces[i]["marked"],
        )
        for i in kept
    ]
    if rest := [i for i in range(len(pieces)) if i not in set(kept)]:
        found.append(_together(payload, rest, columns))
    before = tuple(sum(cells) for cells in payload["earlier"])
    if len(before) > 1:
        found.append(Row(BEFORE, before, sum(before), special=True))
    return found


def _together(payload: Facts, numbers: Sequence[int], columns: Sequence[tuple[float, ...]]) -> Row:
    pieces = [payload["pieces"][i] for i in numbers]
    cells = tuple(sum(values) for values in zip(*(columns[i] for i in numbers), strict=True))
    shares = [piece["share"] for piece in pieces if piece["share"] is not None]
    chances = [piece["chance"] for piece in pieces if piece["chance"] is not None]
    return Row(
        f"({len(numbers)} weaker ones)",
        cells,
        sum(piece["total"] for piece in pieces),
        sum(shares) if shares else None,
        sum(chances) if chances else None,
    )


def heads(payload: Facts) -> list[str]:
    """Return the parts of the answer, each on one line."""
    return [one_line(output["text"]) for output in payload["outputs"]]


def hundredths(value: float, scale: float) -> str:
    """Write a score in hundredths of the largest; nothing has a sign."""
    written = f"{100 * value / scale:+.0f}"
    return "0" if written in ("+0", "-0") else written


def percent(value: float | None) -> str:
    """Write a share."""
    return "" if value is None else f"{value:.1%}"


def notes(payload: Facts) -> list[str]:
    """Say what else a reader must know."""
    said = [cut(payload)]
    if payload.get("full"):
        said.append(
            f"The model's context is full after {len(payload['output_tokens'])} tokens: it cannot go on."
        )
    return [one for one in said if one]
