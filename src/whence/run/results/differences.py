"""What determines results and is not the same in two runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whence.run.results.evaluated import setting_of, software

if TYPE_CHECKING:
    from whence.run.results import Run

_MODEL = ("name", "revision", "class", "fingerprint", "dtype", "tokenizer", "processor")
_PLAN = ("seed", "limit", "sample", "mlm")


def differences(
    a: "Run", b: "Run", methods: Sequence[str], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Return every setting that differs, by name, with what it is in either run.

    Of the parameters, those of the methods and metrics that both runs have.
    """
    sides = [dict(_told(run, methods, metrics)) for run in (a, b)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [
        {"what": name, "a": _plain(sides[0].get(name)), "b": _plain(sides[1].get(name))}
        for name in names
        if sides[0].get(name) != sides[1].get(name)
    ]


def _told(run: "Run", methods: Sequence[str], metrics: Sequence[str]) -> Iterator[tuple[str, Any]]:
    manifest = run.manifest
    for name in _MODEL:
        yield f"model: {name}", manifest["model"].get(name)
    yield "data", manifest["data"]["name"]
    yield "code", manifest["code"]
    for name, value in {
        **{one: manifest["plan"].get(one) for one in _PLAN},
        **setting_of(manifest),
    }.items():
        yield name, value
    settings = manifest["settings"]
    for method in methods:
        yield from _params(method, settings.get(manifest["explained"].get(method), {}))
    tested: dict[str, str] = {}
    for own in manifest["tested"].values():
        tested |= own
    for metric in metrics:
        yield from _params(metric, settings.get(tested[metric], {}))
    for name, value in software(run).items():
        yield f"with: {name}", value


def _params(owner: str, setting: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in (setting.get("params") or {}).items():
        yield f"{owner}.{name}", value
    if setting.get("source"):
        yield f"{owner}: source", setting["source"]


def _plain(value: Any) -> str:
    return "-" if value is None else str(value)
