"""The key of a result: a hash of everything that determines it, and of nothing else.

A result is determined by a *setting* (the method and its parameters, the code, the model with its tokenizer and its
dtype, the target; of a test also the metric, its parameters, the removal, the seed) and by an example: an explanation
by what is given to the model, and by the label where that is what is explained; a test by all that an example says.
Which device, backend, batch or order it was computed in does not count: it changes numbers by rounding at most.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from whence.data.sets.digest import digest, example_digest, given_digest

if TYPE_CHECKING:
    from whence.run.task import Item

__all__ = ["Part", "digest", "example_digest", "given_digest", "key", "key_for", "setting_digest"]

# What of an example a result depends on; a setting says it under "example".
Part = Literal["given", "given and label", "all"]


def setting_digest(facts: Mapping[str, Any]) -> str:
    """Return the short hash that names a setting in every row; the manifest says what it stands for."""
    return digest(facts)[:16]


def key(setting: str, example: str) -> str:
    """Return the key of a result."""
    return sha256(f"{setting} {example}".encode()).hexdigest()


def key_for(setting: str, facts: Mapping[str, Any], item: "Item") -> str:
    """Return the key of an example's result, by the digest of the setting and what that stands for."""
    part: Part = facts.get("example", "all")
    if part == "given":
        return key(setting, item.given)
    if part == "given and label":
        return key(setting, digest([item.given, item.example.label]))
    return key(setting, item.digest)
