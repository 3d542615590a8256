"""Sweep of all text model classes of transformers, made tiny, against PyTorch; outcomes stored, page rendered.

Usage::

    python scripts/architecture_sweep.py                 # try all: half an hour of one core
    python scripts/architecture_sweep.py bert xlnet      # some model types again; the others stay as they are

The outcomes are kept in bench/results/architectures.jsonl, and `make docs` writes the page from there. It fails where
a number differs from PyTorch's own, or where an exception is not one of whence's.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

RESULTS = ROOT / "bench" / "results" / "architectures.jsonl"
_COLUMNS = {
    "logits": "logits",
    "gradient": "`grad_x_input`",
    "leave_one_out": "`leave_one_out`",
    "batch": "batch",
    "attention": "attention",
}
_HEAD = """# Every model type of transformers

{mark}

{tried} classes of {types} model types of transformers {version} were built tiny, with random weights, and tried.
{unbuilt} more could not be made so; they stand at the end. Each is held against the same model, run by PyTorch alone:

- **logits**: those of a trace are the model's own.
- **`grad_x_input`** and **`leave_one_out`**: equal what autograd, and one run for every token left out, give.
- **batch**: three texts at once give what each gives alone.
- **attention**: its maps can be read, by `raw_attention`. Where they cannot, methods that need no attention remain.

✓ means equal, up to rounding: {float64} of the largest number in float64, {float32} for a class that runs in float32
alone. A letter is a refusal, in the words of the list below: whence says so, and computes nothing. Nothing else may
come of it: `make architectures` tries all again and fails otherwise, and the tests try a part of them every day. What
of each method works on the commonest architectures is told in [a table of its own](architectures.md).
"""


def load_outcomes() -> list[dict[str, object]]:
    """Read the outcomes, the oldest first."""
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def render_page() -> str:
    """Return the page of all outcomes."""
    rows = load_outcomes()
    version = rows[0]["transformers"]
    built = [row for row in rows if not row["unbuilt"]]
    letters: dict[str, str] = {}
    lines = ["| model type | class | " + " | ".join(_COLUMNS.values()) + " |"]
    lines.append("|---|---|" + ":-:|" * len(_COLUMNS))
    for row in sorted(built, key=lambda one: (one["kind"], one["name"])):
        found = row["found"]
        cells = [_format_cell(found[check], str(row["name"]), letters) for check in _COLUMNS]
        lines.append(f"| {row['kind']} | `{row['name']}` | " + " | ".join(cells) + " |")
    notes = [f"- {letter}: {why}" for why, letter in letters.items()]
    rest = [
        f"- {row['kind']}, `{row['name']}`: {_strip_markup(str(row['unbuilt']))}"
        for row in sorted(rows, key=lambda one: (one["kind"], one["name"]))
        if row["unbuilt"]
    ]
    head = _HEAD.format(
        mark="<!-- Written by `make docs`; do not edit. -->",
        tried=len(built),
        types=len({row["kind"] for row in built}),
        version=version,
        unbuilt=len(rest),
        float64="1e-4",
        float32="5e-3",
    )
    parts = [
        head,
        "\n".join(lines),
        "## Refusals",
        "\n".join(notes),
        "## Not built",
        "\n".join(rest),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _format_cell(said: str, name: str, letters: dict[str, str]) -> str:
    if said == "ok":
        return "✓"
    # One refusal says the same of many classes and layers.
    why = re.sub(r"Layer \d+ of", "A layer of", said.replace(name, "it"))
    why = re.sub(r"\b\d+\b", "n", why.replace("'it' is a it: it", "it"))
    why = _strip_markup(why.partition(": ")[2] if why.partition(": ")[0].isidentifier() else why)
    return letters.setdefault(why, _format_letter(len(letters)))


def _format_letter(number: int) -> str:
    return (
        chr(97 + number)
        if number < 26
        else _format_letter(number // 26 - 1) + chr(97 + number % 26)
    )


def _strip_markup(text: str) -> str:
    """Return a message as a line of Markdown: no tables, tags or links in it."""
    line = " ".join(text.split())[:600]
    return re.sub(r"([|<>*_\[\]`])", r"\\\1", line)


def main(arguments: Iterable[str] | None = None) -> int:
    """Try all classes, or those of some model types, and store the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", help="model types; all of them unless some are named")
    kinds = parser.parse_args(arguments).kinds

    import transformers
    from tests import text_model_classes
    from tests.sweep import faults_in, sweep

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    rows = {(row["kind"], row["name"]): row for row in load_outcomes()} if kinds else {}
    # A class that serves two heads is tried as the one that Auto classes name last.
    heads = {(kind, name): head for kind, head, name in text_model_classes.classes()}
    for (kind, name), head in sorted(heads.items()):
        if (kind, name) in rows and kind not in kinds:
            continue
        outcome = sweep(kind, head, name)
        rows[kind, name] = {"transformers": transformers.__version__, **asdict(outcome)}
        print(name, outcome.unbuilt or ", ".join(outcome.found.values())[:160], flush=True)
        lines = [json.dumps(rows[key]) + "\n" for key in sorted(rows) if key in heads]
        RESULTS.write_text("".join(lines), encoding="utf-8")
    faults = [
        f"{name}: {one}" for (_, name), row in rows.items() for one in faults_in(row["found"])
    ]
    print("\n".join(faults) or "no faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
