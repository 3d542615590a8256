"""Tables of docs/metrics/README.md and docs/reference/trust.md, from the registries."""

from whence.metrics import KINDS, metric
from whence.trust.trust_rules import VERDICT_RULES


def render_metrics() -> str:
    """Return the metrics by kind."""
    lines = [
        "| metric | kind | better | range | null | what it is | source |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in sorted(metric, key=lambda e: (KINDS.index(e.facts["kind"]), e.name)):
        facts = entry.facts
        low, high = (f"{end:g}".replace("inf", "∞") for end in facts["range"])
        null = facts["null"] if isinstance(facts["null"], str) else f"{facts['null']:g}"
        name = f"[`{entry.name}`]({entry.name}.md)"
        lines.append(
            f"| {name} | {facts['kind']} | {facts['direction']} | {low} to {high} | {null} "
            f"| {entry.summary} | {facts['cite']} |"
        )
    return "\n".join(lines)


def render_rules() -> str:
    """Return the tests of the trust card with their bars."""
    lines = ["| test | metric | question | holds | weak | fails |", "|---|---|---|---|---|---|"]
    for rule in VERDICT_RULES:
        told = rule.to_dict()
        cells = [told[name] for name in ("question", "holds", "weak", "fails")]
        lines.append(f"| {rule.name} | `{rule.metric}` | {' | '.join(cells)} |")
    return "\n".join(lines)
