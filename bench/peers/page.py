"""Text of docs/science/peers.md and the README's table, rendered from bench/results/peers.jsonl."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

from bench.peers import tables
from bench.peers.__main__ import load_results
from bench.peers.checks import AGREES, CHECKS, COMPLETE, SAME, SIGN, TOP
from bench.peers.remarks import NOTES

Row = dict[str, Any]


def render_readme() -> str:
    """Return the README's table."""
    return tables.render_summary(tables.group_by_peer(load_results()))


def _format_days(rows: Sequence[Row], *checks: str) -> str:
    days = sorted({row["day"] for row in rows if row["check"] in checks})
    return " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "not yet"


def render_page(rows: Sequence[Row]) -> str:
    """Return the page."""
    everyone = tables.group_by_peer(rows)
    machines = ", ".join(sorted({row["machine"] for row in rows if "machine" in row}))
    pythons = ", ".join(sorted({row["python"] for row in rows if "python" in row}))
    defined = "\n".join(
        f"- **{name}.** {' '.join(cleandoc(check.__doc__ or '').split())}"
        for name, check in CHECKS.items()
    )
    bars = f"{COMPLETE:.0%}, r ≥ {AGREES:g}, {SIGN:.0%} of the top {TOP} words, {SAME:g}"
    return f"""# whence and its peers

The libraries that explain Transformers today, from PyPI, each in an environment of its own so that their pins
do not matter: same models, same texts, same machine, one ruler. whence is measured by it, too.

```sh
make peers
```

That installs, asks and measures all of them, and goes on where it was stopped; `python -m bench.peers
--only-times` measures time and memory again on a quiet machine. The classifier is a BERT of six layers
(`minilm-sst2` in `../shared/models`, or the built-in `reviews` where that is absent), the language model
`stories260K`. Python {pythons}; {machines}. Asked: {_format_days(rows, "method", "sign")}; time and memory measured:
{_format_days(rows, "time", "memory")}.

## In short

{tables.render_summary(everyone)}

*right*: checks that hold, of those that apply. *time*: integrated gradients at 64 steps, or changed texts where
there are none, as a multiple of the bare forward + backward pass on the same text; then of eight texts, as a
multiple of the bare pass on eight. *memory*: what explaining one long text takes on top, at the library's own
settings. A dash: does not apply, or was not measured yet.

## Does it install?

{tables.render_environments(everyone)}

Size and number of packages are of the whole environment, torch and transformers with all that they need among
them. Import: processor time on top of torch and transformers, in a new process, the quicker of two.

## Does it run?

Every method that the library documents for such a model, once, on the model as `from_pretrained` loads it.

{tables.render_methods(everyone)}

## Is it right?

One definition and one threshold for all ({bars}); the reasons stand beside them in `bench/peers/checks.py`.

{defined}

{tables.render_checks(everyone)}

Completeness at each library's own number of steps:

{tables.render_own_steps(everyone)}

A wrong target should be refused, in words that help:

{tables.render_wrong_targets(everyone)}

## How long does it take?

As a multiple of the bare forward + backward pass of the same model on the same texts (32 words each), measured
in turns in the same process: processor time, one thread, the middle of up to seven runs. From text to scores.
Libraries that take no list get the eight texts one by one. A dash: not measured; it would say nothing new, or
take minutes.

{tables.render_times(everyone)}

## How much memory?

The peak of resident memory over what was resident before, explaining one long text; beside it the bare pass. At
the library's own settings: captum, and those that build on it, compute all steps at once unless
`internal_batch_size` says otherwise.

{tables.render_memory(everyone)}

## How each was called

{tables.render_calls(everyone)}

## What to bear in mind

{NOTES}
"""
