"""A prompt that is too long gives way at its beginning: what a model goes on with follows from the end."""

from dataclasses import replace

from whence.core.errors import TooLong
from whence.data.text.encode import Encoded


def shortened(item: Encoded, longest: int | None) -> Encoded:
    """Return a text of at most so many tokens, its first ones dropped; special tokens stay."""
    excess = 0 if longest is None else len(item) - longest
    if excess <= 0:
        return item
    content = [i for i, token in enumerate(item.tokens) if not token.special]
    if excess >= len(content):
        raise TooLong(
            f"No room is left for any of the prompt's {len(content)} tokens beside the answer. Ask for a shorter one."
        )
    gone = set(content[:excess])
    kept = [i for i in range(len(item)) if i not in gone]
    number = {old: new for new, old in enumerate(kept)}
    words = [
        replace(word, tokens=tuple(number[i] for i in word.tokens if i in number))
        for word in item.words
    ]
    return replace(
        item,
        features={name: tuple(values[i] for i in kept) for name, values in item.features.items()},
        tokens=tuple(item.tokens[i] for i in kept),
        words=tuple(word for word in words if word.tokens),
        source=replace(item.source, dropped=item.source.dropped + excess),
    )


def unended(item: Encoded) -> Encoded:
    """Return a prompt without the special tokens that its tokenizer closed it with: it is to go on."""
    if item.source.text is None or not item.tokens:
        return item
    last = max(i for i, token in enumerate(item.tokens) if not token.special) + 1
    features = {name: values[:last] for name, values in item.features.items()}
    return replace(item, features=features, tokens=item.tokens[:last])
