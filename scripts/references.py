"""Full citations of registered methods, metrics and experiments, and sources of presets: references.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WORKS: dict[str, str] = _KNOWN["works"]
NAMED: dict[str, str] = _KNOWN["named"]
PRESETS: dict[str, str] = _KNOWN["presets"]
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
DOI = re.compile(r"doi:(10\.\S+?)(?=[;,]|$)")


def describe_preset(owner: str, name: str) -> str:
    """Return the description of a preset."""
    return PRESETS.get(f"{owner} {name}") or PRESETS[name]


def list_references(cite: str) -> list[str]:
    """Return the works of a citation, in full and with a link, in its order."""
    found: list[tuple[int, str]] = []
    for match in ARXIV.finditer(cite):
        number = match[1]
        found.append(
            (match.start(), f"{WORKS[number]} [arXiv:{number}](https://arxiv.org/abs/{number})")
        )
    for match in DOI.finditer(cite):
        number = match[1]
        found.append((match.start(), f"{WORKS[number]} [doi:{number}](https://doi.org/{number})"))
    found += [(cite.index(words), work) for words, work in NAMED.items() if words in cite]
    return [work for _, work in sorted(found)]


def shorten_citation(cite: str) -> str:
    """Return the first name and year of a citation: `Abnar & Zuidema 2020`."""
    match = re.match(r".*?\b(18|19|20)\d\d\b", cite)
    return match[0] if match else cite
