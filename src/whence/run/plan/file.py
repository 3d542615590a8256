"""A plan in a TOML file."""

import tomllib
from pathlib import Path
from typing import Any

from whence.core.errors import BadPlan
from whence.data.sets.hub import is_name
from whence.models.catalogue import BUILTIN

OUT = "out"


def read_plan(path: str | Path) -> dict[str, Any]:
    """Read a plan by name, as `planned` takes it, and under "out" the folder of the results if it is there.

    Paths in the file count from the folder that the file is in.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            found = tomllib.load(stream)
    except OSError as error:
        raise BadPlan(
            f"Cannot read the plan {str(path)!r}: {error.strerror or error}. Give a .toml file, or use options: "
            "--model, --data, --methods."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadPlan(
            f"{str(path)!r} is not TOML: {error}. docs/reference/run.md has an example."
        ) from None
    home = path.parent
    for name in ("model", "mlm"):
        if isinstance(found.get(name), str):
            found[name] = _model(found[name], home)
    if isinstance(found.get("data"), str):
        found["data"] = _data(found["data"], home)
    if OUT in found:
        if not isinstance(found[OUT], str) or not found[OUT].strip():
            raise BadPlan(f"{str(path)!r}: 'out' must be the name of a folder. Got {found[OUT]!r}.")
        found[OUT] = str(home / Path(found[OUT]).expanduser())
    return found


def _model(name: str, home: Path) -> str:
    """Return a folder beside the file as one; other names stay what they are, built in or on the Hub."""
    beside = home / Path(name).expanduser()
    looks_like_one = name.startswith((".", "~")) or beside.is_dir()
    return str(beside) if name not in BUILTIN and looks_like_one else name


def _data(address: str, home: Path) -> str:
    """Return a file or folder beside the file as one; other addresses and names of data sets stay what they are."""
    if "://" in address or "::" in address:
        return address
    path, colon, rest = address.partition(":")
    beside = home / Path(path).expanduser()
    if (home / Path(address).expanduser()).exists() or not (beside.exists() or is_name(address)):
        return str(home / Path(address).expanduser())
    return f"{beside}{colon}{rest}" if beside.exists() else address
