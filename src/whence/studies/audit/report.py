"""How an audit says things, on every surface the same: what was claimed first, then what was found."""

from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any

from whence.report.data import drawn_told
from whence.report.figures import TOO_FEW, digits_of, interval, number
from whence.report.text import visible

QUESTION = "May attention be read as an explanation here?"
NOTHING = "-"
SIGNS = {"holds": "✓", "fails": "✗", "undecided": "?"}
ANSWERS = {"yes": "Yes", "no": "No", "undecided": "Undecided"}
_LISTED = 12  # figures of a list that are worth reading one by one
HEADS = ("experiment", "holds if", "effect", "chance", "n", "verdict")
LEGEND = (
    "An experiment holds if the whole 95% interval of its effect is on the side that was asked for beforehand, "
    "fails if the whole interval is on the other side, and is undecided otherwise, or where the examples are too few "
    "for a verdict or something else stands against one, which is then said. Chance: the effect of attention "
    "that means nothing, where it is known."
)


def one_line(text: Any) -> str:
    """Return a text from outside on one line, without signs that could do anything."""
    return " ".join(visible(str(text)).split())


def in_words(name: str) -> str:
    """Name a figure in words."""
    return one_line(name).replace("_", " ")


def plain_number(value: float | None) -> str:
    """Write a threshold or a chance to three figures."""
    return NOTHING if value is None or not isfinite(value) else f"{value:.3g}"


def asked(one: Mapping[str, Any]) -> str:
    """Say where the effect must lie."""
    return f"{one['direction']} {plain_number(one['threshold'])}"


def rule(one: Mapping[str, Any]) -> str:
    """Say what was to decide, before there was a number."""
    other = "below" if one["direction"] == "above" else "above"
    return (
        f"Holds if the whole 95% interval is {asked(one)}, fails if the whole interval is {other}, is undecided "
        "otherwise, or with too few examples."
    )


def ends(one: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an effect in the form that figures are written from, if there is one."""
    if one.get("effect") is None or not isfinite(one["effect"]):
        return None
    low, high = one.get("interval") or (None, None)
    return {"mean": one["effect"], "low": low, "high": high, "n": one.get("n") or 0}


def effect(one: Mapping[str, Any], beside: Sequence[Mapping[str, Any]] = ()) -> str:
    """Write an effect with its interval, without n, to the same place as those that stand beside it."""
    found = ends(one)
    if found is None:
        return NOTHING
    known = [other for part in beside or [one] if (other := ends(part)) is not None]
    digits = _places(known, one["threshold"]) if one.get("threshold") else digits_of(known)
    if found["low"] is not None and found["low"] == found["high"]:
        return f"{number(found['mean'], digits)} in every example"
    sizes = [abs(found[end]) for end in ("mean", "low", "high") if found[end] is not None]
    if digits is not None and 0 < max(sizes) < 0.5 * 10**-digits:
        return f"within {10**-digits:g} of 0"
    return interval(found, digits, found["n"])


def _places(known: Sequence[Mapping[str, Any]], threshold: float) -> int:
    """Return how many decimals are worth reading beside a threshold: three figures, and none too small for it."""
    all_ends = [one[end] for one in known for end in ("mean", "low", "high")]
    values = [value for value in all_ends if value]
    finest = 3 - floor(log10(abs(threshold)))
    wanted = digits_of(known)
    largest = max(map(abs, values), default=abs(threshold))
    digits = max(0, min(finest if wanted is None else wanted, finest, 2 - floor(log10(largest))))
    # An end close to the threshold must not look as if it were on it.
    while digits <= finest and any(
        round(value, digits) == threshold != value and round(value, 8) != threshold
        for value in values
    ):
        digits += 1
    return digits


def counted(one: Mapping[str, Any]) -> str:
    """Say how many examples an effect is of, and that these are too few, if they are."""
    few = ends(one) is not None and not one.get("interval")
    return f"n={one['n']}: {TOO_FEW}" if few else f"n={one['n']}"


def figures(one: Mapping[str, Any]) -> str:
    """Write all that was found, on one line."""
    if ends(one) is None:
        return "no value"
    return f"{effect(one)}, {counted(one)}"


def verdict(one: Mapping[str, Any]) -> str:
    """Write a verdict as a sign and a word."""
    return f"{SIGNS.get(one['verdict'], '?')} {one['verdict']}"


def row(one: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one experiment as the cells below `HEADS`."""
    return (
        one_line(one["name"]),
        asked(one),
        effect(one),
        plain_number(one.get("chance")),
        str(one["n"]),
        verdict(one),
    )


def answer(payload: Mapping[str, Any]) -> str:
    """Say the answer in a word."""
    return ANSWERS.get(payload["answer"], str(payload["answer"]))


def facts(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was audited: each fact with its name."""
    model, data, setting = payload["model"], payload["data"], payload["setting"]
    made = f" ({one_line(model['class'])})" if model.get("class") else ""
    first, *sites = setting.get("sites") or ["none"]
    others = f", and beside it {len(sites)} other{'s' * (len(sites) > 1)}" if sites else ""
    told = [
        ("model", one_line(model["name"]) + made),
        ("data", _data(data, payload["setting"])),
        ("classes", _classes(data.get("classes") or {})),
        ("accuracy", _performance(payload.get("performance"), data.get("without_labels"))),
        ("attention", one_line(first) + others + _special(setting.get("special"))),
        ("training data", one_line(setting["train"]) if setting.get("train") else ""),
        ("seed", str(setting["seed"]) if setting.get("seed") is not None else ""),
    ]
    return [(name, text) for name, text in told if text]


def _data(data: Mapping[str, Any], setting: Mapping[str, Any]) -> str:
    columns = ", ".join(
        f"{what} from {one_line(data[what])!r}"
        for what in ("text", "pair", "label")
        if data.get(what) is not None
    )
    guessed = (
        f" ({', '.join(map(one_line, data['guessed']))} guessed)" if data.get("guessed") else ""
    )
    said = f"{one_line(data['name'])}, {data['used']:,} of {data['given']:,} examples"
    said += drawn_told(setting, data)
    return said + (f"; {columns}{guessed}" if columns else "")


def _classes(classes: Mapping[str, int]) -> str:
    largest = sorted(classes.items(), key=lambda pair: -pair[1])
    told = [f"{one_line(name)} {count:,}" for name, count in largest[:8]]
    more = [f"{len(largest) - 8} more"] if len(largest) > 8 else []
    return ", ".join([*told, *more])


def _performance(found: Mapping[str, Any] | None, why_not: str | None) -> str:
    if not found or found.get("accuracy") is None:
        return f"not known: {one_line(why_not or 'the data have no labels')}"
    said = f"{found['accuracy']:.1%}"
    if found.get("majority") is not None:
        said += f" (always the most frequent class: {found['majority']:.1%})"
    if found.get("f1") is not None:
        said += f", F1 {found['f1']:.3f}"
    return f"{said}, n={found['n']:,}" if found.get("n") is not None else said


def _special(special: str | None) -> str:
    return {
        "keep": "; the weights of special tokens are left as they are",
        "free": "; the weights of special tokens are moved like all others",
    }.get(special or "", "")


def left_out(payload: Mapping[str, Any]) -> list[str]:
    """Say which examples were not used, and which experiments not made, and why."""
    lines = []
    for one in payload["data"].get("why_not") or ():
        count = one["count"]
        lines.append(
            f"{count:,} example{'' if count == 1 else 's'} not used: {one_line(one['why'])}"
        )
    by_reason: dict[str, list[str]] = {}
    for one in payload.get("not_run") or ():
        by_reason.setdefault(one_line(one["why"]), []).append(one_line(one["name"]))
    lines += [f"Not run: {', '.join(names)} ({why})." for why, names in by_reason.items()]
    return lines


def agreement(one: Mapping[str, Any]) -> str:
    """Say how attention correlates with each other measure of importance, where that was measured."""
    pairs = (one.get("detail") or {}).get("pairs")
    found = [
        pair
        for pair in (pairs if isinstance(pairs, list) else ())
        if isinstance(pair, Mapping) and pair.get("one") == "attention" and is_mean(pair)
    ]
    told = [f"{in_words(pair['other'])} {_tau(pair)}" for pair in found]
    return f"attention's mean tau with {', '.join(told)}" if told else ""


def _tau(pair: Mapping[str, Any]) -> str:
    if pair["mean"] is None:
        return NOTHING
    share = pair.get("significant")
    return f"{pair['mean']:.3f}" + ("" if share is None else f" (significant in {share:.0%})")


def remarks(one: Mapping[str, Any]) -> list[str]:
    """Return what a reader must know of one experiment's result."""
    why = [one_line(one["why"])] if one.get("why") else []
    return [*why, *map(one_line, one.get("notes") or ())]


def effort(payload: Mapping[str, Any]) -> str:
    """Say what it took."""
    calls = payload.get("calls") or {}
    passes = [f"{calls[what]:,.0f} {what}" for what in ("forward", "backward") if calls.get(what)]
    if payload["seconds"] is None:
        return "What it took is in the journal of the run."
    told = f"{' and '.join(passes)} passes of the model, " if passes else ""
    return f"{told}{payload['seconds']:,.1f} s."


def parts(one: Mapping[str, Any], which: str) -> list[tuple[str, str, str]]:
    """Return the effect by site or by class: name, effect with its interval, n; all to the same place."""
    rows = [{"threshold": one["threshold"], **part} for part in one.get(f"by_{which}") or ()]
    return [(one_line(part[which]), effect(part, rows), str(part["n"])) for part in rows]


def any_figure(value: Any) -> str:
    """Write one of the further figures, whatever it is."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if is_mean(value):
        known = {"effect": value["mean"], **value}
        return NOTHING if ends(known) is None else f"{effect(known)} n={value['n']}"
    if isinstance(value, Mapping):
        return "; ".join(f"{in_words(str(k))} {any_figure(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        if len(value) > _LISTED or any(isinstance(one, list | tuple) for one in value):
            return f"{len(value)} in the JSON"
        return f"[{', '.join(any_figure(one) for one in value)}]"
    return one_line(value)


def is_mean(value: Any) -> bool:
    """Whether a figure is a mean with its interval and n."""
    return isinstance(value, Mapping) and {"mean", "interval", "n"} <= value.keys()
