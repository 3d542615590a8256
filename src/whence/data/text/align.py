"""Tokenizers that do not say where their tokens come from: the places are found in the text."""

import unicodedata
from collections.abc import Sequence
from typing import Any


def aligned(
    tokenizer: Any, ids: list[int], pieces: list[str], text: str, pair: str | None
) -> tuple[list[int | None], list[tuple[int, int]]]:
    """Find the pieces of a tokenizer without offsets in the text, left to right."""
    owners: list[int | None] = []
    segment, seen = 0, False
    for flag in frames(tokenizer, ids):
        if flag and seen and pair is not None:
            segment = 1
        seen = seen or not flag
        owners.append(None if flag else segment)
    spans = [(0, 0)] * len(ids)
    for number, source in enumerate((text, pair)):
        places = [i for i, owner in enumerate(owners) if owner == number]
        if source is not None:
            for i, span in zip(places, _placed([pieces[i] for i in places], source), strict=True):
                spans[i] = span
    return owners, spans


def _placed(pieces: list[str], text: str) -> list[tuple[int, int]]:
    """Return where each piece stands; one that cannot be found stays with the character before it."""
    raw = text.encode()
    if len(pieces) == len(raw) and all(p == chr(b) for p, b in zip(pieces, raw, strict=True)):
        # ByT5 and its kin: a token is a byte, and a character may be several.
        owner = [i for i, character in enumerate(text) for _ in character.encode()]
        return [(i, i + 1) for i in owner]
    folded, at, spans = _fold(text), 0, []
    for piece in pieces:
        surface = piece.removeprefix("##").replace("▁", "").replace("</w>", "").replace("@@", "")
        found = folded.find(_fold(surface), at) if surface else -1
        if found >= 0:
            spans.append((found, found + len(surface)))
            at = found + len(surface)
        else:
            spans.append((max(at - 1, 0), max(at, 1)))
    return spans


def frames(tokenizer: Any, ids: Sequence[int]) -> list[bool]:
    """Flag the tokens that frame a text. An unknown or a mask token stands for a part of it."""
    frame = {
        getattr(tokenizer, f"{kind}_token_id", None) for kind in ("cls", "sep", "bos", "eos", "pad")
    }
    frame -= {getattr(tokenizer, f"{kind}_token_id", None) for kind in ("unk", "mask")}
    return [i in frame for i in ids]


def _fold(text: str) -> str:
    """Lower-case and strip accents, one character for one, so that offsets stay true."""
    return "".join((unicodedata.normalize("NFD", c)[0].lower() or c)[0] for c in text)
