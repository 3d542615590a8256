"""Text of docs/methods/README.md, the index of all methods, and the README's table of method families."""

from __future__ import annotations

import card_markdown as parts
import method_results
import references
from card_markdown import format_interval, format_table, join_parts, load_result

from whence.core.registry import Entry
from whence.methods import is_trace_method, method

# What each family reads, in a line.
FAMILIES = {
    "attention": "where the model looked: weights of attention, alone or with the vectors they carry",
    "gradient": "how the output would change with the input",
    "attention x gradient": "attention or hidden states, weighed by how much the output depends on them",
    "relevance": "the output, handed back operation by operation to the input",
    "perturbation": "what becomes of the prediction when tokens are taken away",
    "baseline": "nothing: the bar that every explanation must clear",
}


def list_methods() -> list[Entry]:
    """Return the methods by family, `random` last."""
    families = list(FAMILIES)
    return sorted(method, key=lambda entry: (families.index(entry.facts["family"]), entry.name))


def render_index() -> str:
    """Return the page of all methods."""
    truth = load_result("truth")
    head = ["method", "what it does", "passes", "signs"]
    columns: list[tuple[str, str]] = [
        (data, name) for data in parts.EVALUATIONS if load_result(f"table-{data}") for name in ("comprehensiveness",)
    ]  # fmt: skip
    head += ["truth", *(f"{name}, {parts.EVALUATIONS[data]}" for data, name in columns)]
    sections = []
    for family, what in FAMILIES.items():
        own = [entry for entry in list_methods() if entry.facts["family"] == family]
        body = []
        for entry in own:
            judged = (truth or {"methods": {}})["methods"].get(entry.name, {}).get("all")
            body.append(
                [
                    f"[`{entry.name}`]({entry.name}.md)",
                    entry.summary,
                    _format_passes(entry),
                    "yes" if entry.facts["signed"] else "no",
                    f"{judged['recovered']}/{judged['sentences']}" if judged else "–",
                    *(
                        method_results.format_cell(data, entry.name, name).replace(" [", "<br>[")
                        for data, name in columns
                    ),
                ]
            )
        sections += [f"## {family.capitalize()}", f"{what.capitalize()}.", format_table(head, body)]
    return join_parts(
        "# Methods",
        "A method gives every token, or every patch of a picture, a number: how much it counts for the "
        "prediction. They do not "
        "measure the same thing, and each misleads somewhere; its card says where. Methods that read share one "
        "forward "
        "and one backward pass, those that ask call the model again. [Which one to use](../guides/which-method.md), "
        "[what the families measure](../concepts/families.md), [on which conventions](../concepts/conventions.md).",
        "**Truth**: in how many sentences the method puts every word that counts above every word that does not, on "
        "[models whose answer is known](../science/truth.md). **Comprehensiveness**: by how much the probability "
        "falls when what the method points at is removed, with its 95% interval, on "
        f"[two trained models](../science/evaluation.md). {_format_random(columns)} {method_results.LEGEND}",
        *sections,
    )


def render_readme() -> str:
    """Return the table of the README: a row for each family and cost."""
    lines = []
    last = ""
    for family in FAMILIES:
        own = [entry for entry in list_methods() if entry.facts["family"] == family]
        for passes in dict.fromkeys(_format_passes(entry) for entry in own):
            named: dict[str, list[str]] = {}
            for entry in own:
                if _format_passes(entry) == passes:
                    link = f"[`{entry.name}`](docs/methods/{entry.name}.md)"
                    named.setdefault(references.shorten_citation(entry.facts["cite"]), []).append(
                        link
                    )
            names = "; ".join(f"{', '.join(links)} ({cite})" for cite, links in named.items())
            new = family != last
            lines.append([family * new, FAMILIES[family] * new, names, passes])
            last = family
    return format_table(["family", "what it measures", "methods", "passes"], lines)


def _format_passes(entry: Entry) -> str:
    """Return the kind of a method's cost, in a few words."""
    needs = entry.facts["needs"]
    if not is_trace_method(entry):
        if entry.facts["family"] == "baseline":
            return "1 forward"
        one = "forward and backward" if entry.facts["family"] == "gradient" else "forward"
        return f"one {one} for each {'step or sample' if 'and' in one else 'changed text'}"
    if "steps" in needs or "again" in entry.facts["cost"]:
        return "1 forward, layers decomposed or run again"
    gradient = any(need.endswith("_grad") for need in needs)
    passes = ["1 forward", *(["1 backward"] if gradient else [])]
    if "relevance" in needs:
        return "1 forward, 1 relevance pass"
    return ", ".join(passes)


def _format_random(columns: list[tuple[str, str]]) -> str:
    told = [
        f"{format_interval(one['null'])} on {parts.EVALUATIONS[data]}"
        for data, name in columns
        for one in (load_result(f"table-{data}") or {"metrics": []})["metrics"]
        if one["metric"] == name
    ]
    return f"Random explanations get {parts.format_list(told)}." if told else ""
