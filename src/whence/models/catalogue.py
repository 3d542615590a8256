"""The models that are shipped inside the package, so that whence works offline from the first second."""

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


def builtin_folder(name: str) -> Path:
    """Return the folder of a built-in model."""
    return Path(__file__).parent / "builtin" / name
