"""Parser of code blocks in Markdown pages: language, text, marks, shell commands, match with expected output."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

LANGUAGES = ("python", "sh", "console", "toml", "json", "yaml", "text")
# Why a block may be left alone. Being slow is no reason: then it can be made smaller.
REASONS = ("GPU", "cluster", "Hub", "network", "stays running", "takes long")
_FENCE = re.compile(r"^( *)(`{3,}|~{3,}) *([^`]*)$")
_MARK = re.compile(r"^\s*<!-- *(setup|not run): *(.*?) *-->\s*$")
_QUOTED = r""""(?:\\.|[^"\\])*"|'[^']*'|\\."""
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    language: str
    text: str
    line: int  # where its text begins, from 1
    setup: tuple[str, ...] = ()  # what the page wants to be there, by its name in the scene
    not_run: str | None = None  # why it is not run


@dataclass(frozen=True)
class Command:
    """A command of a shell, and what stands below it."""

    text: str
    line: int
    expected: str = ""


def pages() -> list[Path]:
    """Return every page of the documentation that has code blocks; those of notebooks run as notebooks."""
    docs = [
        page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "notebooks"
    ]
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *docs]
    return [page for page in found if blocks(page.read_text(encoding="utf-8"))]


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page, in order."""
    return list(_read(page.splitlines()))


def _read(lines: list[str]) -> Iterator[Block]:
    marks: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if mark := _MARK.match(line):
            marks[mark[1]] = mark[2]
            continue
        fence = _FENCE.match(line)
        if fence is None:
            if line.strip():
                marks = {}
            continue
        first, (indent, ticks, language) = number, fence.groups()
        closing = re.compile(rf"^ *{re.escape(ticks)}{ticks[0]}* *$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        own = (one.removeprefix(indent) for one in lines[first:number])
        names = tuple(filter(None, re.split(r"[,\s]+", marks.get("setup", ""))))
        yield Block(language.strip(), "\n".join(own) + "\n", first + 1, names, marks.get("not run"))
        marks = {}
        number += 1


def commands(block: Block) -> list[Command]:
    """Return the commands of a block of shell, those on several lines in one piece."""
    found, lines, number = [], block.text.splitlines(), 0
    while number < len(lines):
        first, text = number, lines[number]
        while _unfinished(text) and number + 1 < len(lines):
            number += 1
            text += "\n" + lines[number]
        number += 1
        if not _HEREDOC.search(text):
            text = re.sub(r"\\\n\s*", " ", without_comment(text))
        text = text.strip()
        if text:
            found.append(Command(text, block.line + first))
    return found


def console_commands(block: Block) -> list[Command]:
    """Return the commands of a console, `$ ` before each, with what they are said to print."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(Command(without_comment(line[2:]).strip(), number))
        elif found:
            last = found.pop()
            found.append(Command(last.text, last.line, last.expected + line + "\n"))
        else:
            raise ValueError(f"line {number}: a console begins with a command, `$ ...`")
    return found


def without_comment(line: str) -> str:
    """Return a line of shell without the comment at its end; a # in a word or in quotes is none."""
    bare = re.match(rf"(?:{_QUOTED}|(?<=\S)#|[^#])*", line)
    assert bare is not None
    return bare[0]


def needs_shell(text: str) -> bool:
    """Say whether a command needs a shell: it has pipes, redirections, variables, wildcards or several parts."""
    outside = re.sub(r"'[^']*'|\\.", "", text)
    bare = re.sub(r'"(?:\\.|[^"\\])*"', "", outside)
    return bool(re.search(r"[$`]", outside) or re.search(r"[|<>&;*?~\n]|^\w+=", bare))


def _unfinished(text: str) -> bool:
    if here := _HEREDOC.search(text):
        return text.splitlines()[-1].strip() != here[1]
    if text.endswith("\\"):
        return True
    bare = re.sub(_QUOTED, "", without_comment(text), flags=re.S)
    return '"' in bare or bare.count("'") % 2 == 1


def matches_expected_output(expected: str, printed: str) -> bool:
    """Say whether this is what was expected: a line `...` stands for any lines, `...` in a line for any text."""
    pattern = ""
    for line in expected.rstrip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.rstrip().split("..."))) + r" *\n"
    return re.fullmatch(pattern, printed.rstrip() + "\n" if printed.strip() else "") is not None
