"""The sentence of an evaluation that tested nothing: which errors that was, and how often each came."""

from collections.abc import Iterator, Mapping
from typing import Any

NOTHING = "Nothing was tested"
_NAMED = 3  # reasons that the sentence has room for; the notes below the table have all of them


def failure(payload: Mapping[str, Any]) -> str | None:
    """Return a sentence on why nothing at all was tested; None where one number was found."""
    if any(row["n"] for what in ("cells", "agreement") for row in payload[what]):
        return None
    reasons = sorted(_reasons(payload), key=lambda reason: -reason[0])
    said = [text for _, text in reasons[:_NAMED]]
    if more := len(reasons) - len(said):
        said.append(f"{more} more reason{'' if more == 1 else 's'}")
    why = "; ".join(text.removesuffix(".") for text in said)
    return f"{NOTHING}: {why or 'agreement is that of two methods, and there is one'}."


def _reasons(payload: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Go through what was refused, what failed and what could not be tested: how often, and the error's words."""
    given = payload["examples"]["given"]
    for row in payload["examples"]["why_not"]:
        yield row["count"], f"no method could take {row['count']} of {given}: {row['why']}"
    methods: dict[tuple[str, int], list[str]] = {}
    for one in payload["methods"]:
        for row in one["why_not"]:
            methods.setdefault((row["why"], row["count"]), []).append(one["method"])
    for (why, count), names in methods.items():
        yield count, f"{', '.join(names)} failed for {count} of {given}: {why}"
    metrics: dict[tuple[str, int], list[str]] = {}
    tested = [(cell["metric"], cell["why_not"]) for cell in payload["cells"]]
    tested += [(row["measure"], row.get("why_not", ())) for row in payload["agreement"]]
    for metric, why_not in tested:
        for row in why_not:
            metrics.setdefault((row["why"], row["count"]), []).append(metric)
    for (why, count), names in metrics.items():
        tests = ", ".join(dict.fromkeys(names))
        yield count, f"{tests} could not be measured on {count} of {given}: {why}"
