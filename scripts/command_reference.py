"""Reference page of all commands, docs/reference/commands.md, read from the command line itself."""

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


def iterate_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command as it is typed, groups before their members."""
    return _walk("whence", typer.main.get_command(app))


def render_page() -> str:
    """Return the page."""
    every = list(iterate_commands())
    parts = [HEAD, *(_format_contents(every))]
    return "\n".join([*parts, *(_format_section(name, command) for name, command in every)])


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for part, member in getattr(command, "commands", {}).items():
        yield from _walk(f"{name} {part}", member)


def _format_contents(every: list[tuple[str, Any]]) -> list[str]:
    lines = ["| command | |", "|---|---|"]
    for name, command in every[1:]:
        first = inspect.cleandoc(command.help).partition("\n\n")[0]
        lines.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_escape_cell(first)} |")
    return [*lines, ""]


def _format_section(name: str, command: Any) -> str:
    options = [one for one in command.params if one.param_type_name == "option"]
    options = [one for one in options if not one.hidden and not one.name.endswith("_completion")]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    members = list(getattr(command, "commands", {}))
    usage = [name, *(_format_placeholder(one) for one in arguments)]
    usage += ["[OPTIONS]"] * (bool(options) and not members) + ["COMMAND"] * bool(members)
    parts = [f"## {name}", f"```text\n{' '.join(usage)}\n```", _format_description(command.help)]
    if members and name != "whence":  # the root's commands are all on the page
        links = ", ".join(
            f"[`{name} {one}`](#{f'{name} {one}'.replace(' ', '-')})" for one in members
        )
        parts.append(f"Its commands: {links}.")
    if arguments:
        rows = [f"| `{_format_name(one)}` | {_escape_cell(one.help)} |" for one in arguments]
        parts.append("\n".join(["| argument | |", "|---|---|", *rows]))
    if options:
        rows = [
            f"| {_format_spellings(one)} | {_escape_cell(_format_help(one))} | {_format_default(one)} |"
            for one in options
        ]
        parts.append("\n".join(["| option | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _format_description(text: str) -> str:
    """Turn a help text into Markdown: its indented lines are commands to type."""
    done = []
    paragraphs = inspect.cleandoc(text).split("\n\n")
    for typed, some in groupby(paragraphs, lambda one: one.startswith("    ")):
        lines = [" ".join(paragraph.split()) for paragraph in some]
        done += [EXAMPLES.format("\n".join(lines))] if typed else lines
    return "\n\n".join(done)


def _format_placeholder(one: Any) -> str:
    bare = _format_name(one)
    return bare if one.required else f"[{bare}]"


def _format_name(one: Any) -> str:
    name = (one.metavar or one.name.upper()).strip("[]")
    return name if one.nargs == 1 or name.endswith("...") else f"{name}..."


def _format_spellings(one: Any) -> str:
    """Return the spellings of an option, and the name of its value."""
    if one.is_flag:
        return ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    value = one.metavar or _get_kind(one)
    return ", ".join(f"`{name} {value}`" for name in one.opts)


def _get_kind(one: Any) -> str:
    """Return the kind of a value; typer keeps it in one place from 0.20 on, and click in another before."""
    if _get_choices(one):
        return "NAME"
    if (described := getattr(one, "type_descriptor", None)) is not None:
        kind = described.annotation
        return KINDS[(get_args(kind) or (kind,))[0]]
    return KINDS[one.type.name]


def _get_choices(one: Any) -> list[str]:
    if (described := getattr(one, "type_descriptor", None)) is not None:
        kind = described.annotation
        return list(get_args(kind)) if get_origin(kind) is Literal else []
    return list(getattr(one.type, "choices", []))


def _format_help(one: Any) -> str:
    low, high = (getattr(getattr(one, "type", one), end, None) for end in ("min", "max"))
    said = (
        f"{one.help} Out of {', '.join(_get_choices(one))}." if _get_choices(one) else str(one.help)
    )
    if low is not None and high is not None:
        said += f" Between {low} and {high}."
    elif low is not None:
        said += f" At least {low}."
    elif high is not None:
        said += f" At most {high}."
    return f"{said} Required." if one.required else said


def _format_default(one: Any) -> str:
    if isinstance(one.show_default, str):
        return _escape_cell(one.show_default)
    if one.default is None or one.default is False or one.show_default is False:
        return ""
    return f"`{one.opts[0] if one.default is True else one.default}`"


def _escape_cell(text: str) -> str:
    """Return a text that may stand in a table."""
    return re.sub(r"([|<*])", r"\\\1", " ".join(text.split()))
