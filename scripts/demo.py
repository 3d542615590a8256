"""Demonstration behind `make demo`: built-in models explain texts and a picture, and a trust card is made."""

from rich.console import Console
from rich.rule import Rule

import whence
from whence.core.files import write_bytes, write_text
from whence.explain.page import render_page
from whence.explain.report import build_document
from whence.explain.word_scores import merge_payloads
from whence.render.image_maps import render_image_sheet_png

PAGE, CARD, MAPS = "whence-demo.html", "whence-demo-trust.html", "whence-demo-shapes.png"

CASES = [
    ("reviews", "a gripping, beautifully acted film", None),
    ("reviews", "the plot is thin, but the actors are wonderful", ("positive", "negative")),
    ("reviews", "it takes talent to make a war film this dull", None),
    # Weights set by hand: only `great` counts, and `decoy` gets nearly all of the attention.
    ("decoy", "the decoy film is great", None),
]
# Long enough to tell an explanation from chance.
TESTED = "the plot is thin and the jokes are stale, but the actors are wonderful and it moved me to tears"
METHODS = {
    "reviews": ["attcat", "leave_one_out"],
    "decoy": ["raw_attention", "attcat"],
    # On `shapes` it is known where a map belongs: rollout has one map for both objects, leave-one-out finds each.
    "shapes": ["rollout", "leave_one_out"],
}
PICTURE, SHAPES = "shapes:7", ("square", "ring")


def main() -> None:
    """Explain, print, and write the pages."""
    console = Console()
    explainers = {name: whence.load(name) for name in METHODS}
    explained = []
    for model, text, target in CASES:
        found = explainers[model].explain(text, method=METHODS[model], target=target)
        explained.append(list(found.values()))
        console.print(Rule(style="dim"))
        payload = merge_payloads([one.to_dict() for one in found.values()])
        console.print(build_document([payload], top=4).to_terminal())
    maps = []
    for label in SHAPES:
        found = explainers["shapes"].explain(PICTURE, method=METHODS["shapes"], target=label)
        explained.append(list(found.values()))
        maps.append(merge_payloads([one.to_dict() for one in found.values()]))
        console.print(Rule(style="dim"))
        console.print(build_document([maps[-1]], top=4).to_terminal())
    write_bytes(MAPS, render_image_sheet_png(maps))
    write_text(PAGE, render_page(explained, title="whence: texts and a picture, explained"))
    console.print(Rule(style="dim"))
    card = explainers["reviews"].trust(TESTED, method=["attcat", "raw_attention"])
    console.print(card)
    card.to_html(CARD)
    console.print(Rule(style="dim"))
    console.print(
        f"The same as pages: {PAGE}, {CARD}; the maps: {MAPS}", style="bold", highlight=False
    )
    console.print(
        "Raw attention points at the decoy, which has no effect at all: attention must be tested before it is "
        'believed.\nNext: .venv/bin/whence trust "your own text"',
        style="dim",
        highlight=False,
    )


if __name__ == "__main__":
    main()
