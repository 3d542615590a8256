"""The models that are shipped inside the package, so that whence works offline from the first second."""

from pathlib import Path

BUILTIN = {
    "reviews": "sentiment of short English film reviews: negative or positive",
    "reviews-base": "the encoder of `reviews` before fine-tuning, a masked language model",
    "decoy": "weights set by hand: a word that gets nearly all attention and has no effect",
}


def builtin_folder(name: str) -> Path:
    """Return the folder of a built-in model."""
    return Path(__file__).parent / "builtin" / name
