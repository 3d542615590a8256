"""Drawing of docs/images/pictures.png: two classes of one picture, by several methods, on the built-in model."""

from __future__ import annotations

from pathlib import Path

import whence
from whence.core.files import write_bytes
from whence.explain.word_scores import merge_payloads
from whence.render.image_maps import render_image_sheet_png

PLACE = Path(__file__).resolve().parents[1] / "docs" / "images" / "pictures.png"
PICTURE, CLASSES = "shapes:7", ("ring", "square")
METHODS = ["generic_attention", "transformer_attribution", "rollout", "leave_one_out"]


def main() -> None:
    """Explain and draw."""
    explainer = whence.load("shapes")
    payloads = []
    for label in CLASSES:
        found = explainer.explain(PICTURE, method=METHODS, target=label)
        payloads.append(merge_payloads([one.to_dict() for one in found.values()]))
    print(f"wrote {write_bytes(PLACE, render_image_sheet_png(payloads))}")


if __name__ == "__main__":
    main()
