"""The page of all commands, read from the command line itself: docs/reference/commands.md."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from whence.cli.main import app

HEAD = """# Commands

Everything that `whence` can be asked, as `whence COMMAND --help` says it in the terminal. A command ends with one of
the [exit statuses](../errors/README.md): 0 if it worked, 2 for a wrong call, and one of its own for every error.
"""
# Examples name models that the reader has; what they say is checked, not run.
EXAMPLES = "<!-- not run: examples, some with models of the Hub -->\n```sh\n{}\n```"
KINDS = {
    **{int: "INTEGER", float: "NUMBER", str: "TEXT", bool: "TEXT", Path: "PATH"},
    **{"integer": "INTEGER", "float": "NUMBER", "text": "TEXT", "path": "PATH"},
    **{"integer range": "INTEGER", "float range": "NUMBER"},
}


def commands() -> Iterator[tuple[str, Any]]:
    """Go through every command as it is typed, groups before their members."""
    return _walk("whence", typer.main.get_command(app))


def markdown() -> str:
    """Return the page."""
    every = list(commands())
    parts = [HEAD, *(_toc(every))]
    return "\n".join([*parts, *(_section(name, command) for name, command in every)])


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for part, member in getattr(command, "commands", {}).items():
        yield from _walk(f"{name} {part}", member)


def _toc(every: list[tuple[str, Any]]) -> list[str]:
    lines = ["| command | |", "|---|---|"]
    for name, command in every[1:]:
        first = inspect.cleandoc(command.help).partition("\n\n")[0]
        lines.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(first)} |")
    return [*lines, ""]


def _section(name: str, command: Any) -> str:
    options = [one for one in command.params if one.param_type_name == "option"]
    options = [one for one in options if not one.hidden and not one.name.endswith("_completion")]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    members = list(getattr(command, "commands", {}))
    usage = [name, *(_placeholder(one) for one in arguments)]
    usage += ["[OPTIONS]"] * (bool(options) and not members) + ["COMMAND"] * bool(members)
    parts = [f"## {name}", f"```text\n{' '.join(usage)}\n```", _described(command.help)]
    if members and name != "whence":  # whose commands are all on the page
        links = ", ".join(
            f"[`{name} {one}`](#{f'{name} {one}'.replace(' ', '-')})" for one in members
        )
        parts.append(f"Its commands: {links}.")
    if arguments:
        rows = [f"| `{_bare(one)}` | {_cell(one.help)} |" for one in arguments]
        parts.append("\n".join(["| argument | |", "|---|---|", *rows]))
    if options:
        rows = [f"| {_spelt(one)} | {_cell(_helped(one))} | {_default(one)} |" for one in options]
        parts.append("\n".join(["| option | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _described(text: str) -> str:
    """Turn a help text into Markdown: its indented lines are commands to type."""
    done = []
    paragraphs = inspect.cleandoc(text).split("\n\n")
    for typed, some in groupby(paragraphs, lambda one: one.startswith("    ")):
        lines = [" ".join(paragraph.split()) for paragraph in some]
        done += [EXAMPLES.format("\n".join(lines))] if typed else lines
    return "\n\n".join(done)


def _placeholder(one: Any) -> str:
    bare = _bare(one)
    return bare if one.required else f"[{bare}]"


def _bare(one: Any) -> str:
    name = (one.metavar or one.name.upper()).strip("[]")
    return name if one.nargs == 1 or name.endswith("...") else f"{name}..."


def _spelt(one: Any) -> str:
    """Return the spellings of an option, and what its value is called."""
    if one.is_flag:
        return ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    value = one.metavar or _kind(one)
    return ", ".join(f"`{name} {value}`" for name in one.opts)


def _kind(one: Any) -> str:
    """Return the kind of a value; typer keeps it in one place from 0.20 on, and click in another before."""
    if _choices(one):
        return "NAME"
    if (described := getattr(one, "type_descriptor", None)) is not None:
        kind = described.annotation
        return KINDS[(get_args(kind) or (kind,))[0]]
    return KINDS[one.type.name]


def _choices(one: Any) -> list[str]:
    if (described := getattr(one, "type_descriptor", None)) is not None:
        kind = described.annotation
        return list(get_args(kind)) if get_origin(kind) is Literal else []
    return list(getattr(one.type, "choices", []))


def _helped(one: Any) -> str:
    low, high = (getattr(getattr(one, "type", one), end, None) for end in ("min", "max"))
    said = f"{one.help} Out of {', '.join(_choices(one))}." if _choices(one) else str(one.help)
    if low is not None and high is not None:
        said += f" Between {low} and {high}."
    elif low is not None:
        said += f" At least {low}."
    elif high is not None:
        said += f" At most {high}."
    return f"{said} Required." if one.required else said


def _default(one: Any) -> str:
    if isinstance(one.show_default, str):
        return _cell(one.show_default)
    if one.default is None or one.default is False or one.show_default is False:
        return ""
    return f"`{one.opts[0] if one.default is True else one.default}`"


def _cell(text: str) -> str:
    """Return a text that may stand in a table."""
    return re.sub(r"([|<*])", r"\\\1", " ".join(text.split()))
