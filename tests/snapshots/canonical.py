"""Canonical text of results: rounded, sorted, and without what changes from run to run or machine to machine."""

import base64
import dataclasses
import importlib.metadata
import json
import math
import platform
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DIGITS = 9
PLACES = 12  # what is smaller is rounding, and stored as 0
MOST = 200  # numbers of an array that are stored one by one

_CLOCK = re.compile(r"^(.*_)?(seconds|at|started|ended|written|elapsed|date|created)$")
_MACHINE = re.compile(r"^(bytes|memory|peak|host|pid|size_bytes|machine|processor|cores|sha256)$")
_DIGEST_TABLE = re.compile(r'(?:<tr><th scope="row" class="brief">DIGEST</th>.*?</tr>)+')
_ROW = re.compile(r"<tr>.*?</tr>")
_DIGEST = re.compile(r"\b(?<!blake2b:)[0-9a-f]{16,64}\b")
_DECIMAL = re.compile(r"(?<![\w.])-?\d+\.\d{12,}(?:e[+-]?\d+)?(?![\w.])")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SPAN = re.compile(
    r"(?<![\w.])[<~]?\d+(\.\d+)?(e-?\d+)? ?(s|ms|seconds?|minutes?|min|hours?)(?![\w-])"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(([T ])\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?")
_BUNDLE = re.compile(r"<(script|style)\b([^>]*)>(.*?)</\1>", re.S)
_HASHED = re.compile(r"'sha(256|384|512)-[^']+'")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("torch", "transformers", "numpy", "whence", "tokenizers"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    import whence

    return {**found, "whence": whence.__version__}


VERSIONS = _versions()
_NUMBERED = re.compile(
    r"(?<![\d.])(" + "|".join(re.escape(one) for one in set(VERSIONS.values())) + r")(?![\d.]*\d)"
)


def plain_text(text: str) -> str:
    """Return a text without paths, versions, times and digests."""
    places = [(str(Path.cwd()), "."), (tempfile.gettempdir(), "TMP"), (str(ROOT), "ROOT")]
    for place, name in [*places, (str(Path.home()), "HOME")]:
        if len(place) > 2:
            text = text.replace(place, name)
    text = _NUMBERED.sub("VERSION", text)
    text = _TIME.sub("DATE", text)
    text = _ADDRESS.sub(" at ADDRESS", text)
    text = _DECIMAL.sub(lambda found: str(number(float(found.group()))), text)
    text = _DIGEST.sub("DIGEST", text)
    # Rows of digests stand in the order of the digests, which change with the source code.
    text = _DIGEST_TABLE.sub(lambda table: "".join(sorted(_ROW.findall(table.group()))), text)
    text = _SPAN.sub("TIME", text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def page_text(html: str) -> str:
    """Return a page with its scripts and styles left out; the results within it stay, as canonical JSON."""

    def inner(found: re.Match[str]) -> str:
        kind, about, body = found.groups()
        if "application/json" in about:
            return f"<{kind}{about}>\n{canonical(json.loads(body))}\n</{kind}>"
        return f"<{kind}{about}>LEFT OUT</{kind}>"

    return plain_text(_HASHED.sub("'HASH'", _BUNDLE.sub(inner, html)))


def number(value: float) -> Any:
    """Return a number as it is stored: nine digits, and nothing smaller than 1e-12."""
    if not math.isfinite(value):
        return str(value)
    short = float(f"{round(value, PLACES):.{DIGITS}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def _array(value: np.ndarray[Any, Any]) -> Any:
    if value.size <= MOST or value.dtype.kind not in "fiub":
        return plainly(value.tolist())
    flat = value.astype(np.float64).ravel()
    weights = np.cos(np.arange(flat.size))  # a sum that every number and its place has a part in
    return {
        "shape": list(value.shape),
        "sum": number(float(flat.sum())),
        "squares": number(float((flat**2).sum())),
        "weighted": number(float((flat * weights).sum())),
        "least": number(float(flat.min())),
        "most": number(float(flat.max())),
        "first": [number(float(one)) for one in flat[:8]],
    }


def _numbers(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a long list of numbers, nested or not, as an array; None if it is none."""
    try:
        found = np.array(value)
    except ValueError:
        return None
    return found if found.dtype.kind in "fiu" and found.size > MOST else None


def plainly(value: Any, key: str = "") -> Any:
    """Return a value as plain data of rounded numbers, without what is volatile."""
    if value is not None and (_CLOCK.match(key) or _MACHINE.match(key)):
        return "VOLATILE"
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float | np.floating):
        return number(float(value))
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, str):
        if key == "pixels":  # scores of pixels, in float64
            return _array(np.frombuffer(base64.b64decode(value)))
        if value.startswith("data:image"):
            return f"PICTURE of {len(value) // 100} hundred characters"
        return plain_text(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {"a": type(value).__name__, **_mapping(own)}
    if isinstance(value, list | tuple):
        long = _numbers(value)
        return _array(long) if long is not None else [plainly(one) for one in value]
    return plain_text(str(value))


def _mapping(value: Mapping[Any, Any]) -> Any:
    found = {str(key): plainly(one, str(key)) for key, one in value.items()}
    if found and all(_DIGEST.fullmatch(key) for key in found):
        return {"by digest": sorted(found.values(), key=canonical)}
    for name in VERSIONS:
        if isinstance(found.get(name), str):
            found[name] = "VERSION"
    return {plain_text(key): one for key, one in found.items()}


def canonical(value: Any) -> str:
    """Return a value as text: keys sorted, a level of indent a space, a list of plain values in one line."""
    return _written(plainly(value), 0)


def _written(value: Any, depth: int) -> str:
    inner, outer = " " * (depth + 1), " " * depth
    flat = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if isinstance(value, str) and "\n" in value:
        return "".join(f"\n{inner}| {line}".rstrip() for line in value.split("\n"))
    if not isinstance(value, dict | list) or not value:
        return flat
    if isinstance(value, list):
        if not any(isinstance(one, dict | list) for one in value) or len(flat) < 90:
            return flat
        return "[\n" + ",\n".join(inner + _written(one, depth + 1) for one in value) + f"\n{outer}]"
    if len(flat) < 90 and "\\n" not in flat:
        return flat
    rows = (
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_written(value[key], depth + 1)}"
        for key in sorted(value)
    )
    return "{\n" + ",\n".join(rows) + f"\n{outer}}}"
