"""The models that are shipped inside the package, so that whence works offline from the first second."""

from dataclasses import dataclass
from pathlib import Path

BUILTIN = {
    "reviews": "sentiment of short English film reviews: negative or positive",
    "reviews-base": "the encoder of `reviews` before fine-tuning, a masked language model",
    "decoy": "weights set by hand: a word that gets nearly all attention and has no effect",
    "conjunction": "weights set by hand: two words that count only together",
    "negation": "weights set by hand: a word that turns another round and says nothing alone",
    "copy": "weights set by hand: evidence that passes through the place of another word",
    "redundancy": "weights set by hand: several words of which any one suffices",
    "saturation": "weights set by hand: words so strong that their slope is zero",
    "damper": "weights set by hand: a word that acts through the attention weights alone",
    "spotlight": "weights set by hand: attention alone decides which words are heard",
    "shapes": "which shapes are on a drawn picture, two of eight; draw one with shapes:NUMBER",
}


@dataclass(frozen=True)
class Sample:
    """A text to begin with, and the method to begin with where the usual one says nothing of it."""

    text: str
    method: str | None = None


# Texts of the models that were set by hand: other words say nothing to them. Each shows what its model is about.
SAMPLES = {
    "decoy": Sample("the decoy has a superb story but its ending is dull", "leave_one_out"),
    "conjunction": Sample("a warm and funny story with a tense ending"),
    "negation": Sample("the acting is not bad"),
    "copy": Sample("overall it is a great film with a bad ending"),
    "redundancy": Sample("a superb story with a moving ending"),
    # Where the slope is zero by construction, so are all scores that are made of gradients.
    "saturation": Sample("a gripping story with a wooden actor", "leave_one_out"),
    "damper": Sample("the story is hardly great and the ending is bad"),
    "spotlight": Sample("a superb film with a slow and stale plot"),
}


def builtin_folder(name: str) -> Path:
    """Return the folder of a built-in model."""
    return Path(__file__).parent / "builtin" / name
