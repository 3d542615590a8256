"""Generated tokens as text: which characters each of them added."""

from collections.abc import Sequence
from typing import Any

from whence.core.types import Token
from whence.data.text.encode import tokenizing
from whence.data.text.words import trimmed

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def spoken(
    ids: Sequence[int], before: int | None, tokenizer: Any | None
) -> tuple[tuple[Token, ...], str | None]:
    """Return generated tokens as segment 1, with offsets into the text that they make, and that text.

    `before` is the token that they follow: decoded together, the space between stays. A character of several tokens
    (an emoji in bytes) belongs to each of them.
    """
    if tokenizer is None:
        return tuple(Token(str(i), None, None, 1, False, i) for i in ids), None
    special = set(tokenizer.all_special_ids)
    plain = [i for i in ids if i not in special]
    text = _decoded(plain, before, tokenizer)
    ends = [_common(_decoded(plain[: n + 1], before, tokenizer), text) for n in range(len(plain))]
    tokens, n = [], 0
    for identity in ids:
        if identity in special:
            tokens.append(
                Token(str(tokenizer.convert_ids_to_tokens(identity)), None, None, 1, True, identity)
            )
            continue
        start = max(ends[:n], default=0)
        # The first that goes further: what this token begins, a later one may finish.
        end = next((end for end in ends[n:] if end > start), len(text))
        n += 1
        start, end = trimmed(text, start, end)
        tokens.append(Token(text[start:end], start, end, 1, False, identity))
    return tuple(tokens), text


def _decoded(ids: Sequence[int], before: int | None, tokenizer: Any) -> str:
    lead = "" if before is None else _decode([before], tokenizer)
    both = _decode([*([] if before is None else [before]), *ids], tokenizer)
    if both.startswith(lead) and _UNFINISHED not in lead:
        return both[len(lead) :]
    return _decode(ids, tokenizer)


def _decode(ids: Sequence[int], tokenizer: Any) -> str:
    with tokenizing("what the model said"):
        return str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def _common(part: str, whole: str) -> int:
    """Return how many characters of `whole` are finished in `part`."""
    part = part.rstrip(_UNFINISHED) if not whole.startswith(part) else part
    length = min(len(part), len(whole))
    return next((i for i in range(length) if part[i] != whole[i]), length)
