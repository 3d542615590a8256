"""What folders and files are called in results, which others read: nothing of where they lie on this machine."""

import re

_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file://")
_CACHED = re.compile(r"(?:^|[/\\])models--([^/\\]+)")  # of the Hugging Face cache
# Last parts that many folders have: with the one before they say more.
_COMMON = re.compile(
    r"(checkpoint|epoch|step|fold|seed|run|v)?[-_]?\d*|model|final|best|last|output|outputs|out|saved",
    re.IGNORECASE,
)


def public_name(given: str, taken: tuple[str, ...] = ()) -> str:
    """Return what a model or a file is called: of an absolute path its last part, else what was given.

    Of a last part that says little, or that is the name of something else (`taken`), the one before it is kept, too.
    """
    cached = _CACHED.search(given)
    if cached and _ABSOLUTE.match(given):
        return cached[1].replace("--", "/")
    if not _ABSOLUTE.match(given):
        return given
    parts = [part for part in re.split(r"[/\\]+", given.removeprefix("file://")) if part]
    parts = [part for part in parts if part not in (".", "..", "~")]
    if not parts:
        return "folder"
    few = 2 if parts[-1] in taken or _COMMON.fullmatch(parts[-1]) else 1
    return "/".join(parts[-few:])


def public_address(given: str) -> str:
    """Return the address of data as results have it: a path by its last part, an address without keys."""
    if "://" not in given or given.startswith("file://"):
        return public_name(given)
    return re.sub(r"(?<=://)[^/@]*@", "", given.partition("?")[0])
