"""Audit payloads (JSON) written by hand for report tests: all verdicts and plots, gaps, forty sites, attacks."""

from typing import Any

import numpy as np

from whence.studies.audit.conclusion import conclude

EVIL = "</title></script><img src=x onerror=alert(1)>"
TEXT = "the plot is thin , but the actors are wonderful and the music is not bad at all"
TOKENS = TEXT.split()
CLASSES = ("negative", "positive")


def histogram(classes: tuple[str, ...] = CLASSES, **more: Any) -> dict[str, Any]:
    """Return a histogram with a hump for each class."""
    edges = np.linspace(0, 0.7, 41)
    humps = [np.exp(-(((edges[:-1] - 0.25 - 0.12 * i) / 0.1) ** 2)) for i in range(len(classes))]
    counts = [np.round(40 * hump).astype(int).tolist() for hump in humps]
    return {
        "kind": "histogram", "title": "How far attention can go without the prediction", "x": "largest JSD",
        "edges": edges.tolist(), "threshold": 0.4,
        "series": [{"name": name, "counts": own, "n": sum(own)}
                   for name, own in zip(classes, counts, strict=True)],
        **more,
    }  # fmt: skip


def violin(classes: tuple[str, ...] = CLASSES, **more: Any) -> dict[str, Any]:
    """Return violins of which one has few values and one none."""
    shares = np.linspace(0, 1, 101)
    groups = [
        {"name": "0 to 0.25", "n": 310, "quantiles": (0.2 * shares**3).tolist()},
        {"name": "0.25 to 0.5", "n": 96, "quantiles": (0.02 + 0.5 * shares**2).tolist()},
        {"name": "0.5 to 0.75", "n": 4, "quantiles": [0.1, 0.2, 0.35, 0.4]},
        {"name": "0.75 to 1", "n": 0, "quantiles": []},
    ]
    return {
        "kind": "violin", "title": "How far the prediction goes when the weights are permuted",
        "x": "largest weight", "y": "median TVD",
        "series": [{"name": name, "groups": groups} for name in classes], **more,
    }  # fmt: skip


def matrix(rows: int = 4, columns: int = 4, **more: Any) -> dict[str, Any]:
    """Return a matrix of correlations with a gap."""
    values = [[round(1 - 0.31 * abs(i - j), 3) for j in range(columns)] for i in range(rows)]
    values[-1][0] = None
    return {
        "kind": "matrix", "title": "Mean tau of all pairs",
        "rows": [f"method {i}" for i in range(rows)], "columns": [f"method {j}" for j in range(columns)],
        "values": values, "range": [-1, 1], **more,
    }  # fmt: skip


def curve(**more: Any) -> dict[str, Any]:
    """Return a trade-off with a floor."""
    points = [
        (0.01, 0.05, 0),
        (0.015, 0.2, 1e-4),
        (0.03, 0.41, 5e-4),
        (0.09, 0.55, 1e-3),
        (0.3, 0.64, 1e-2),
    ]
    return {
        "kind": "curve", "title": "Models that predict the same with other attention", "x": "TVD", "y": "JSD",
        "points": [{"x": x, "y": y, "name": f"λ = {lam:g}"} for x, y, lam in points],
        "floor": {"y": 0.18, "name": "another seed"}, **more,
    }  # fmt: skip


def attention(tokens: list[str] = TOKENS, count: int = 2, **more: Any) -> dict[str, Any]:
    """Return examples of attention beside an adversary's."""
    own = np.exp(-np.abs(np.arange(len(tokens)) - 3.0))
    other = np.exp(-np.abs(np.arange(len(tokens)) - len(tokens) + 4.0) * 0.7)
    rows = [
        {"name": "the model's own", "weights": (own / own.sum()).tolist(), "note": ""},
        {"name": "adversarial", "weights": (other / other.sum()).tolist(), "note": "JSD 0.61"},
    ]
    one = {"tokens": tokens, "predicted": "positive", "probability": 0.973, "rows": rows}
    title = "Attention that looks elsewhere and predicts the same"
    return {"kind": "attention", "title": title, "examples": [one] * count, **more}


def bars(**more: Any) -> dict[str, Any]:
    """Return bars of which one has no interval and one no value."""
    return {
        "kind": "bars", "title": "Predictions that change under other attention", "y": "share changed",
        "bars": [{"name": "random", "value": 0.062, "low": 0.05, "high": 0.075},
                 {"name": "uniform", "value": 0.021, "low": 0.009, "high": 0.034},
                 {"name": "last token", "value": 0.17, "low": None, "high": None},
                 {"name": "nothing", "value": None, "low": None, "high": None}],
        "threshold": 0.1, **more,
    }  # fmt: skip


def mean(value: float | None, n: int = 410) -> dict[str, Any]:
    """Return a mean as experiments write it."""
    if value is None:
        return {"mean": None, "interval": None, "std": None, "n": 0}
    return {"mean": value, "interval": [value - 0.02, value + 0.02], "std": 0.2, "n": n}


_PAIRS = [
    {"one": "attention", "other": other, **mean(tau), "significant": 0.49, "constant": 0, "pearson": mean(tau + 0.1),
     "by_class": [{"class": name, **mean(tau), "significant": 0.5} for name in CLASSES]}
    for other, tau in (("gradient", 0.35), ("leave_one_out", 0.29), ("integrated_gradients", 0.31))
]  # fmt: skip

# Name: direction, threshold, effect, interval, chance, hypothesis, plots, detail.
_KNOWN: dict[str, tuple[Any, ...]] = {
    "correlation": ("above", -0.1, -0.212, [-0.228, -0.196], -0.52,
                    "Attention ranks the words of a text nearly as gradients and leave-one-out do, measured by how "
                    "these agree with each other.",
                    lambda: [histogram(title="Attention and gradient", x="Kendall tau", threshold=None), matrix()],
                    {"pairs": _PAIRS, "others_among_themselves": mean(0.52),
                     "heads": {"gradient": {"tau": [[0.1, 0.2], [0.3, None]], "best": {"layer": 1, "head": 0}}}}),
    "permutation": ("above", 0.1, 0.0334, [0.0297, 0.0372], None,
                    "It matters which word gets which weight: with the weights permuted, the prediction changes.",
                    lambda: [violin()], {"largest_weight": mean(0.31), "median": 0.021}),
    "replacement": ("above", 0.1, 0.104, [0.082, 0.127], None,
                    "The prediction needs the model's own attention: with random weights in its place, it changes.",
                    lambda: [bars()],
                    {"own": {"accuracy": mean(0.81)}, "random": {"tvd": mean(0.06), "f1": mean(None)}}),
    "adversarial": ("below", 0.4, 0.481, [0.466, 0.496], None,
                    "Attention that looks elsewhere predicts something else: no distribution far from the model's "
                    "own gives the same prediction.",
                    lambda: [histogram(), violin(y="largest JSD"), attention()], {"median": 0.49}),
    "diversity": ("below", 0.2, 0.31, [0.29, 0.33], None,
                  "There is one attention for one prediction: distributions that give it are alike.",
                  lambda: [histogram(threshold=0.2)], {}),
    "uniform_training": ("above", 0.02, 0.011, [-0.004, 0.027], 0.0,
                         "Attention is needed: a model trained with uniform weights does worse.",
                         lambda: [bars()], {}),
    "seeds": ("below", 0.2, 0.18, None, None, "Another seed attends to the same words.", lambda: [violin()], {}),
    "trained_adversary": ("below", 0.4, 0.41, [0.39, 0.44], None,
                          "No model predicts the same with other attention.", lambda: [curve()], {}),
    "guides": ("above", 0.0, None, None, None, "The weights help a model that is given them.", lambda: [], {}),
}  # fmt: skip
NAMES = tuple(_KNOWN)


def verdict(direction: str, threshold: float, interval: list[float] | None) -> str:
    """Return the verdict as the audit does."""
    if interval is None or interval[0] <= threshold <= interval[1]:
        return "undecided"
    return "holds" if (interval[0] > threshold) == (direction == "above") else "fails"


def experiment(name: str = "permutation", **more: Any) -> dict[str, Any]:
    """Return one experiment; what is given replaces what is known of it, and the verdict follows."""
    direction, threshold, effect, interval, chance, hypothesis, plots, detail = _KNOWN[name]
    one = {
        "name": name, "summary": f"What {name} does, in a line.", "hypothesis": hypothesis,
        "measure": f"mean over examples of what {name} measures",
        "threshold": threshold, "direction": direction, "effect": effect, "interval": interval,
        "n": 0 if effect is None else 410 if interval else 3, "chance": chance, "why": None,
        "by_site": [], "by_class": [{"class": c, "effect": effect, "interval": interval, "n": 205} for c in CLASSES],
        "detail": detail, "plots": plots(), "notes": [], "params": {"permutations": 100, "remove": None},
        "misleads_when": "attention is nearly uniform, so that a permutation changes nothing worth the name",
        "cite": "Jain & Wallace 2019, arXiv:1902.10186", "calls": {"forward": 41410}, "seconds": 12.3,
        **more,
    }  # fmt: skip
    found = verdict(one["direction"], one["threshold"], one["interval"])
    if found == "undecided" and not one["why"]:
        one["why"] = "The interval contains the threshold: more examples may decide." if one["interval"] else (
            "No example gave a number." if one["effect"] is None else "3 examples are too few for an interval."
        )  # fmt: skip
    return {"verdict": found, **one}


def holding(name: str) -> dict[str, Any]:
    """Return one experiment that holds."""
    direction, threshold, *_ = _KNOWN[name]
    away = 0.2 if direction == "above" else -0.2
    value = threshold + away
    return experiment(name, effect=value, interval=[value - 0.03, value + 0.03], n=410)


def sites(count: int, effect: float = 0.05) -> list[dict[str, Any]]:
    """Return an effect at each of many sites, at one of them unknown."""
    found: list[dict[str, Any]] = [
        {"site": f"layer {i // 4}, head {i % 4}", "effect": effect + 0.01 * i,
         "interval": [effect + 0.01 * i - 0.02, effect + 0.01 * i + 0.02], "n": 410}
        for i in range(count)
    ]  # fmt: skip
    if count:
        found[-1] |= {"effect": None, "interval": None, "n": 0}
    return found


def audit(*experiments: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an audit of these experiments, or of all nine."""
    chosen = list(experiments) or [experiment(name) for name in NAMES]
    missing = [name for name in NAMES if name not in {one["name"] for one in chosen}]
    answer, conclusion = conclude(
        chosen, model="reviews", data="sst.tsv", site="layer 5", not_run=missing
    )
    return {
        "version": 1, "kind": "audit",
        "model": {"name": "reviews", "revision": None, "class": "BertForSequenceClassification",
                  "fingerprint": "c0ffee", "labels": list(CLASSES)},
        "provenance": {"whence": "0.4.0", "torch": "2.6.0", "python": "3.11.7", "device": "cpu", "dtype": "float32"},
        "data": {"name": "sst.tsv", "given": 1821, "used": 410, "text": "sentence", "pair": None, "label": "label",
                 "guessed": ["text", "label"], "classes": {"negative": 201, "positive": 209},
                 "why_not": [{"why": "fewer than two tokens", "count": 1}]},
        "setting": {"site": "last", "sites": ["layer 5"], "special": "keep", "truncate": True, "limit": 411,
                    "seed": 0, "train": "train.tsv", "epochs": None},
        "performance": {"accuracy": 0.8146, "f1": 0.811, "majority": 0.5098, "n": 410, "auc": 0.9, "loss": 0.4,
                        "confusion": [[160, 41], [35, 174]]},
        "experiments": chosen,
        "not_run": [{"name": name, "why": "not asked for"} for name in missing],
        "answer": answer, "conclusion": conclusion,
        "calls": {"forward": 1234567}, "seconds": 83.21,
        **more,
    }  # fmt: skip


def many_sites(count: int) -> dict[str, Any]:
    """Return an audit at many sites."""
    names = ["layer 5", *(one["site"] for one in sites(count))]
    made = audit(
        *(experiment(name, by_site=sites(count)) for name in ("permutation", "adversarial"))
    )
    return {**made, "setting": {**made["setting"], "site": "heads", "sites": names}}


def bare() -> dict[str, Any]:
    """Return an audit in which all that may be missing is missing."""
    nothing = {"effect": None, "interval": None, "n": 0, "chance": None, "by_class": [], "plots": [], "detail": {},
               "notes": [], "params": {}}  # fmt: skip
    made = audit(*(experiment(name, **nothing) for name in NAMES[:4]), performance=None)
    made["data"] |= {"classes": {}, "label": None, "guessed": [], "why_not": []}
    made["setting"] |= {"sites": [], "train": None}
    return made


def one_class() -> dict[str, Any]:
    """Return an audit in which one class alone was predicted."""
    alone = ("positive",)
    return audit(
        experiment("permutation", plots=[violin(alone)], by_class=[{"class": "positive", **_value(0.03)}]),
        experiment("adversarial", plots=[histogram(alone)], by_class=[{"class": "positive", **_value(0.48)}]),
    )  # fmt: skip


def _value(effect: float) -> dict[str, Any]:
    return {"effect": effect, "interval": [effect - 0.01, effect + 0.01], "n": 410}


def hostile(evil: str = EVIL, pad: int = 0) -> dict[str, Any]:
    """Return an audit in which every text that comes from outside is an attack, and long if wanted."""
    bad = evil + "x" * pad
    plots = [
        histogram((bad, "b"), title=bad, x=bad), violin((bad,), title=bad, x=bad, y=bad),
        matrix(title=bad) | {"rows": [bad] * 4, "columns": [bad] * 4},
        curve(title=bad, x=bad, y=bad, points=[{"x": 1.0, "y": 2.0, "name": bad}], floor={"x": 1.5, "name": bad}),
        attention([bad, "a", bad], title=bad), bars(title=bad, y=bad, bars=[{"name": bad, "value": 1.0}]),
    ]  # fmt: skip
    plots[4]["examples"] = [
        {**plots[4]["examples"][0], "predicted": bad,
         "rows": [{"name": bad, "weights": [0.5, 0.2, 0.3], "note": bad}]}
    ]  # fmt: skip
    words = dict.fromkeys(("summary", "hypothesis", "measure", "misleads_when", "cite", "why"), bad)
    one = experiment(
        plots=plots, notes=[bad], params={bad: bad}, detail={bad: {bad: bad}, "rows": [{bad: bad}]},
        by_class=[{"class": bad, **_value(0.1)}], by_site=[{"site": bad, **_value(0.1)}], **words,
    )  # fmt: skip
    made = audit(one, conclusion=bad, not_run=[{"name": "seeds", "why": bad}])
    made["model"] |= {"name": bad, "class": bad}
    made["data"] |= {"name": bad, "text": bad, "label": bad, "guessed": [bad], "classes": {bad: 3},
                     "why_not": [{"why": bad, "count": 2}]}  # fmt: skip
    made["setting"] |= {"sites": [bad], "train": bad}
    return made
