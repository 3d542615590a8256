"""An audit in Markdown: for a report, or a page of documentation."""

from collections.abc import Mapping
from typing import Any

from whence.report.audit.wording import (
    HEADS,
    LEGEND,
    QUESTION,
    answer,
    effort,
    facts,
    left_out,
    one_line,
    parts,
    remarks,
    row,
    rule,
)
from whence.report.markdown import escaped, plain_table


def markdown(payload: Mapping[str, Any]) -> str:
    """Write an audit in Markdown."""
    blocks = [
        f"**{QUESTION} {escaped(answer(payload))}.**",
        escaped(one_line(payload["conclusion"])),
        "\n".join(f"- {name}: {escaped(text)}" for name, text in facts(payload)),
    ]
    if payload["experiments"]:
        blocks.append(plain_table([HEADS, *(row(one) for one in payload["experiments"])]))
        blocks.append(LEGEND)
    for one in payload["experiments"]:
        blocks += _experiment(one)
    blocks.append("\n".join(f"- {escaped(line)}" for line in [*left_out(payload), effort(payload)]))
    return "\n\n".join(blocks) + "\n"


def _experiment(one: Mapping[str, Any]) -> list[str]:
    told = [
        f"Hypothesis: {one_line(one['hypothesis'])}",
        f"Measured: {one_line(one['measure'])}. {rule(one)}",
        *remarks(one),
    ]
    told += [f"Misleads when: {one_line(one['misleads_when'])}"] if one.get("misleads_when") else []
    told += [f"Source: {one_line(one['cite'])}"] if one.get("cite") else []
    blocks = [
        f"### {escaped(one_line(one['name']))}",
        "\n".join(f"- {escaped(line)}" for line in told),
    ]
    for which in ("class", "site"):
        if rows := parts(one, which):
            blocks.append(plain_table([(which, "effect", "n"), *rows]))
    return blocks
