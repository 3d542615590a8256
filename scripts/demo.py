"""`make demo`: explain a few texts with the built-in models and test an explanation, in the terminal and as pages."""

from rich.console import Console
from rich.rule import Rule

import whence
from whence.core.io import write_text
from whence.explainer.page import offline
from whence.report.terminal import render
from whence.view import merge

PAGE, CARD = "whence-demo.html", "whence-demo-trust.html"

CASES = [
    ("reviews", "a gripping, beautifully acted film", None),
    ("reviews", "the plot is thin, but the actors are wonderful", ("positive", "negative")),
    ("reviews", "it takes talent to make a war film this dull", None),
    # Weights set by hand: only `great` counts, and `decoy` gets nearly all of the attention.
    ("decoy", "the decoy film is great", None),
]
# Long enough to tell an explanation from chance.
TESTED = "the plot is thin and the jokes are stale, but the actors are wonderful and it moved me to tears"
METHODS = {"reviews": ["attcat", "leave_one_out"], "decoy": ["raw_attention", "attcat"]}


def main() -> None:
    """Explain, show, write the page."""
    console = Console()
    explainers = {name: whence.load(name) for name in METHODS}
    explained = []
    for model, text, target in CASES:
        found = explainers[model].explain(text, method=METHODS[model], target=target)
        explained.append(list(found.values()))
        console.print(Rule(style="dim"))
        console.print(render(merge([one.to_dict() for one in found.values()]), top=4))
    write_text(PAGE, offline(explained, title="whence: a few texts, explained"))
    console.print(Rule(style="dim"))
    card = explainers["reviews"].trust(TESTED, method=["attcat", "raw_attention"])
    console.print(card)
    card.to_html(CARD)
    console.print(Rule(style="dim"))
    console.print(f"The same as pages: {PAGE}, {CARD}", style="bold", highlight=False)
    console.print(
        "Raw attention points at the decoy, which has no effect at all: attention must be tested before it is "
        'believed.\nNext: .venv/bin/whence trust "your own text"',
        style="dim",
        highlight=False,
    )


if __name__ == "__main__":
    main()
