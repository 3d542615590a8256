"""Models, texts, pairs and prompts that every peer library is given, with functions to find and load them.

The texts were written for this, of words that are one token each in both vocabularies, so that the scores of
libraries that cut texts differently can be laid side by side.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"
BUILTIN = ROOT / "src" / "whence" / "models" / "builtin" / "reviews"

TEXTS = (
    "a warm and funny film with a lovely cast",
    "the story is dull and the jokes are bad",
    "i loved the music but the ending was awful",
    "not a bad film and the actors are great",
    "the plot is boring but the cast is wonderful",
    "a very very slow film with a very weak script",
    "this is one of the best films of the year",
    "a terrible waste of time and money",
)
REPEATED = (TEXTS[5], "very", 3)  # a text, a word in it, how often it is there
MIXED = (TEXTS[7], TEXTS[0], f"{TEXTS[6]} and {TEXTS[0]}")  # of different lengths, for lists
PAIR = ("the music is lovely", "the story is bad")
LONG = (
    "the story begins in a small town where two old friends come together again after many years and want "
    "to make one last film and at first it is slow and a little dull and the jokes are bad but then the "
    "music starts and the actors find their way and what was cold becomes warm and funny and even moving "
    "and by the time the two of them stand on the street and look at the city i had tears in my eyes and "
    "did not want the film to end although some scenes are too long and the script is weak in places this "
    "is a great and beautiful film that i loved"
)
PROMPTS = (
    "Once upon a time there was a little girl",
    "One day a cat and a dog went to the park",
    "The boy was very sad because he lost his ball",
    "Lily saw a big red box and",
    "The sun was warm and the bird was happy",
    "Tom and his mom went to the shop to buy",
    "There was a big tree in the garden and",
    "The little dog wanted to play with the",
)
TARGET = 1  # the class "positive"


def select_timed_texts(batch: int, causal: bool) -> list[str]:
    """Return different texts, of one number of words for the classifier."""
    if causal:
        return list(PROMPTS[:batch])
    words = LONG.split()
    return [" ".join(words[9 * start : 9 * start + 32]) for start in range(batch)]


def locate_models() -> dict[str, str]:
    """Return the folders of the models: the real ones, or the built-in one where they are absent."""
    real = SHARED / "minilm-sst2"
    found = {"classifier": str(real if real.is_dir() else BUILTIN)}
    if (SHARED / "stories260K").is_dir():
        found["causal"] = str(SHARED / "stories260K")
    return found


def load_model(folder: str, causal: bool) -> tuple[Any, Any]:
    """Load a model as its users do, in float32, with the default attention implementation (SDPA)."""
    import transformers

    kind = transformers.AutoModelForCausalLM if causal else None
    kind = kind or transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(folder).float().eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)
