"""Table of snapshot calls: named library calls, commands and pages whose output is stored and compared."""

import contextlib
import inspect
import io
import itertools
import json
import os
import re
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from tests.snapshots.canonical import ROOT, canonical, page_text, plain_text

CALLS: dict[str, Callable[[], Any]] = {}
TEXTS = ["a gripping, beautifully acted film", "the plot is thin and not funny"]
PAIR = ("It rains in Paris.", "The street is wet.")
INPUTS: dict[str, Any] = {
    "reviews": TEXTS[0],
    "pairs": PAIR,
    "gpt": "the film is",
    "shapes": "shapes:3",
    "bart": "a gripping film",
    "attentive": "the plot is thin and slow",
}
ROWS = [
    ("a gripping film", "positive"),
    ("a dull and slow film", "negative"),
    ("not a bad film at all", "positive"),
    ("the plot is thin and slow", "negative"),
    ("a warm and funny story to see", "positive"),
    ("the jokes are worse than the plot", "negative"),
]
EXAMPLES = [{"text": text, "label": label} for text, label in ROWS]
FEW = {
    "gradient_shap": {"samples": 4},
    "integrated_gradients": {"steps": 6},
    "kernel_shap": {"samples": 160},
    "lime": {"samples": 40},
    "smoothgrad": {"samples": 4},
}
METHODS = ["attcat", "rollout", "leave_one_out"]
METRICS = ["comprehensiveness", "sufficiency", "loo_correlation", "tau_b"]
COMMANDS = (
    "", "app", "explain", "trust", "evaluate", "recommend", "audit", "compare", "train-attention", "run", "runs",
    "report", "doctor", "list", "list methods", "list metrics", "list experiments", "list models", "store",
    "store verify", "store merge", "store export",
)  # fmt: skip


def call(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Put a function into the table."""

    def put(made: Callable[[], Any]) -> Callable[[], Any]:
        CALLS[name] = made
        return made

    return put


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """Work in one temporary folder, on one thread, with a plain terminal and no warnings.

    The clock nearly stands still, and ticks when it is looked at: how long something took is no part of a result, and
    would shift the columns of tables.
    """
    import torch

    plain = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}
    before, threads = Path.cwd(), torch.get_num_threads()
    torch.set_num_threads(1)
    folder = _folder()
    os.chdir(folder.name)
    try:
        with (
            mock.patch.dict(os.environ, plain),
            mock.patch("time.perf_counter", _clock()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        os.chdir(before)
        torch.set_num_threads(threads)


def _clock() -> Callable[[], float]:
    ticks = itertools.count(1)
    return lambda: next(ticks) * 2.0**-30


@cache
def _folder() -> Any:
    return tempfile.TemporaryDirectory(prefix="whence-snapshots-")


def made(name: str) -> str:
    """Make the canonical text of one call."""
    with elsewhere():
        found = CALLS[name]()
        text = plain_text(found) if isinstance(found, str) else canonical(found)
    return text.rstrip("\n") + "\n"


def model(name: str) -> Any:
    """Return one of the small models; they are made when first asked for."""
    from tests.snapshots import models

    return models.model(name)


def tried(ask: Callable[[], Any]) -> Any:
    """Return what a call gives, or its refusal."""
    import whence

    try:
        return ask()
    except whence.WhenceError as error:
        return {"refused": type(error).__name__, "message": str(error)}


def command(*words: str) -> str:
    """Run a command as `python -m whence` does, and return what it prints, and its status."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    shown = warnings.showwarning
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["whence", *words]),
            # Or the usage would name the program that asks, such as pytest.
            mock.patch.object(sys.modules["__main__"], "__package__", None, create=True),
        ):
            runpy.run_module("whence", run_name="__main__", alter_sys=False)
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
    finally:
        warnings.showwarning = shown
    told = f"$ whence {' '.join(words)}\n{out.getvalue()}"
    said = [line for line in err.getvalue().split("\n") if line and "%|" not in line]
    return told + "".join(f"! {line}\n" for line in said) + f"status {status}\n"


def printed(*words: str) -> Any:
    """Run a command that prints one JSON object, and return it."""
    text = command(*words)
    start, end = text.index("{"), text.rindex("}") + 1
    return {"command": words, "object": json.loads(text[start:end]), "rest": text[end:]}


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names that `whence list` lists."""
    found = re.findall(r"^ {0,2}([a-z][a-z0-9_]+) {2,}\S", command("list", kind), re.M)
    return tuple(found)


# Every method on every small model.


def _methods(name: str) -> Any:
    explainer, given = model(name), INPUTS[name]
    common: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for method in names("methods"):
        asked = FEW.get(method)
        one = tried(lambda m=method, p=asked: explainer.explain(given, method=m, params=p))
        if isinstance(one, dict):
            found[method] = one
            continue
        told = one.to_dict()
        own = told.pop("explanations")[0]
        if not common:
            common = told
            own = {**own, "str": str(one)}
        elif told != common:
            other = {key: value for key, value in told.items() if value != common.get(key)}
            own = {**own, "other": other}
        found[method] = {**own, "repr": repr(one)}
    return {"model": repr(explainer), "input": common, "methods": found}


for _name in INPUTS:
    call(f"methods-{_name}")(lambda name=_name: _methods(name))
    call(f"examine-{_name}")(lambda name=_name: tried(model(name).examine))


# One explanation, in every form.


@cache
def _explained(name: str = "reviews", method: str = "attcat") -> Any:
    return model(name).explain(INPUTS[name], method=method)


@call("explanation-dict")
def _() -> Any:
    one = _explained()
    again = type(one).from_dict(one.to_dict())
    return {"made": one.to_dict(), "shown": one.to_display_dict(), "again": again.to_dict() == one.to_dict()}  # fmt: skip


@call("explanation-str")
def _() -> Any:
    wanted = (("reviews", "attcat"), ("pairs", "gradient"), ("shapes", "generic_attention"))
    return "\n\n".join(str(_explained(*one)) for one in wanted)


@call("explanation-parts")
def _() -> Any:
    one, two = _explained(), _explained("pairs", "grad_x_input")
    return {
        "top": one.top(3),
        "words": one.words(),
        "pieces": {kind: one.pieces(kind) for kind in ("token", "word", "sentence")},
        "segments": two.segments(),
        "by_segment": two.by_segment(),
        "heatmap": _explained("shapes", "generic_attention").heatmap(),
    }


@call("explanation-html")
def _() -> Any:
    return page_text(_explained().to_html())


@call("explanation-html-picture")
def _() -> Any:
    page = _explained("shapes", "generic_attention").to_html(flows=False)
    return re.sub(r"data:image/\w+;base64,[\w+/=]+", "PICTURE", page_text(page))


@call("explanation-notebook")
def _() -> Any:
    return page_text(_explained()._repr_html_())


@call("explain-targets")
def _() -> Any:
    ask = model("reviews").explain
    asked = (
        {"target": "negative"}, {"target": "runner-up"}, {"target": 0}, {"of": "probability"},
        {"target": ("positive", "negative")}, {"target": "positiv"},
    )  # fmt: skip

    def told(one: dict[str, Any]) -> Any:
        return {"asked": one, "found": ask(TEXTS[0], method="grad_x_input", **one).to_dict()}

    return [tried(lambda a=a: told(a)) for a in asked]


@call("explain-batch")
def _() -> Any:
    found = model("reviews").explain(TEXTS, method=["attcat", "gradient", "leave_one_out"])
    return [{name: one.to_dict()["explanations"] for name, one in each.items()} for each in found]


@call("predict")
def _() -> Any:
    return {name: model(name).predict(given) for name, given in INPUTS.items()}


@call("refusals")
def _() -> Any:
    import whence

    e = model("reviews")
    return [
        tried(lambda: e.explain("")),
        tried(lambda: e.explain("a film", method="atcat")),
        tried(lambda: e.explain("a film", method="attcat", params={"layr": 1})),
        tried(lambda: e.explain("film " * 2000)),
        tried(lambda: e.explain("a film", of="logits")),
        tried(lambda: e.entities("a film")),
        tried(lambda: e.generate("a film")),
        tried(lambda: whence.load("revews")),
        tried(lambda: whence.Run("nowhere")),
        tried(lambda: whence.evaluate(e, EXAMPLES, METHODS, ["sufficency"])),
        tried(lambda: whence.compare("reviews", "reviews", EXAMPLES, weight="atention")),
    ]


@call("inside")
def _() -> Any:
    seen = model("reviews").inside(TEXTS[0])
    return {
        "attention": seen.attention(),
        "rows": seen.rows,
        "flow": seen.flow(most=40),
        "forward": seen.flow("attention", direction="forward", token=2, most=20),
        "heads": {name: seen.head_values(name) for name in ("entropy", "special", "gradient", "ablation")},
        "statistic": seen.head_statistic(),
        "warnings": seen.warnings(),
    }  # fmt: skip


# Trust.


@cache
def _trusted(name: str, *methods: str) -> Any:
    return model(name).trust(INPUTS[name], method=list(methods), budget=400)


@call("trust-dict")
def _() -> Any:
    return _trusted("reviews", "attcat", "rollout").to_dict()


@call("trust-str")
def _() -> Any:
    return str(_trusted("reviews", "attcat", "rollout"))


@call("trust-html")
def _() -> Any:
    return page_text(_trusted("reviews", "attcat", "rollout").to_html())


@call("trust-pairs")
def _() -> Any:
    return _trusted("pairs", "gradient").to_dict()


@call("trust-shapes")
def _() -> Any:
    return _trusted("shapes", "generic_attention").to_dict()


# Over a data set.


@cache
def _evaluated() -> Any:
    import whence

    return whence.evaluate(model("reviews"), EXAMPLES, METHODS, METRICS)


_FORMS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda one: one.to_dict(),
    "str": str,
    "html": lambda one: page_text(one.to_html()),
    "markdown": lambda one: one.to_markdown(),
    "latex": lambda one: one.to_latex(),
    "csv": lambda one: one.to_csv() + "\n" + one.to_csv(what="pairs"),
    "plot": lambda one: page_text(one.plot()),
}
for _form in ("dict", "str", "html", "markdown", "latex", "csv", "plot"):
    call(f"evaluate-{_form}")(lambda form=_form: _FORMS[form](_evaluated()))


@call("evaluate-all-metrics")
def _() -> Any:
    import whence

    marked = [{**one, "rationale": [[0, 6]]} for one in EXAMPLES[:3]]

    def cells(metric: str) -> Any:
        found = whence.evaluate(model("reviews"), marked, ["attcat"], [metric], rankings=2)
        return found.to_dict()["cells"]

    return {name: tried(lambda m=name: cells(m)) for name in names("metrics")}


@cache
def _recommended() -> Any:
    import whence

    return whence.recommend(
        model("reviews"), EXAMPLES, budget=1500, methods=["attcat", "gradient", "rollout"]
    )


@call("recommend")
def _() -> Any:
    return {"dict": _recommended().to_dict(), "str": str(_recommended())}


@cache
def _audited(name: str) -> Any:
    import whence

    experiments = ["correlation", "permutation", "replacement", "adversarial", "diversity"]
    kept = {"good": "positive", "bad": "negative"}
    own = {new: old for old, new in kept.items()} if name == "attentive" else {}
    rows = [{**one, "label": own.get(one["label"], one["label"])} for one in EXAMPLES[:4]]
    return whence.audit(
        model(name), rows, experiments=experiments if name == "attentive" else experiments[:3]
    )


for _form in ("dict", "str", "html", "markdown"):
    call(f"audit-{_form}")(lambda form=_form: _FORMS[form](_audited("reviews")))
call("audit-attentive")(lambda: _audited("attentive").to_dict())


@cache
def _compared() -> Any:
    import whence

    return whence.compare(model("base"), model("reviews"), EXAMPLES[:4])


for _form in ("dict", "str", "html"):
    call(f"compare-{_form}")(lambda form=_form: _FORMS[form](_compared()))


@call("compare-heads")
def _() -> Any:
    import whence

    rows = [{"text": a, "pair": b} for a, b in (PAIR, PAIR[::-1])]
    return whence.compare(model("pairs"), model("pairs"), rows).to_dict()


@call("train-attention")
def _() -> Any:
    from tests.snapshots import models

    told = models.trained().to_dict()
    for one in (*told["history"], told["dev"]):  # trained in float32: fewer digits can be kept
        one.update({k: round(v, 4) for k, v in one.items() if isinstance(v, float)})
    return told


# Language models and the other tasks.


@cache
def _generated() -> Any:
    return model("gpt").generate("the film is not", 4, method="grad_x_input")


for _form in ("dict", "str", "html"):
    call(f"generate-{_form}")(lambda form=_form: _FORMS[form](_generated()))


@call("generate-words")
def _() -> Any:
    ask = model("gpt").generate
    marked = "the plot is thin . [[ a warm story ]] and"
    return [
        ask("the film. a plot", 2, method="leave_one_out", granularity="sentence").to_dict(),
        ask(marked, 2, method="gradient", granularity="passage", contrast=True).to_dict(),
        ask("the film is", answer="not bad", method="gradient", granularity="word").to_dict(),
    ]


def _task(name: str, given: Any, *asked: dict[str, Any]) -> Any:
    explainer = model(name)
    found = []
    for one in asked or ({},):
        for method in ("gradient", "grad_x_input", "attcat", "leave_one_out"):
            told = tried(lambda m=method, a=one: explainer.explain(given, method=m, **a))
            several = told.flatten() if hasattr(told, "flatten") else [told]
            shown = [
                each if isinstance(each, dict) else {**each.to_dict(), "str": str(each)}
                for each in several
            ]
            found.append({"asked": {**one, "method": method}, "found": shown})
    return found


QUESTION = ("Who lives in Paris?", "Anna lives here in Paris.")
call("task-answers")(lambda: _task("answers", QUESTION, {}, {"target": "start"}))
call("task-tags")(lambda: _task("tags", "Anna lives in Paris.", {}, {"at": "Paris"}))
call("task-entities")(lambda: model("tags").entities("Anna lives in Paris."))
call("task-masked")(lambda: _task("masked", "the film is [MASK].", {}, {"target": "dull"}))
call("task-masked-builtin")(lambda: _task("base", "the film is [MASK]."))
call("task-causal")(
    lambda: _task("gpt", "the film is", {"answer": "not bad"}, {"target": ("good", "bad")})
)
call("task-zero-shot")(lambda: _task("pairs", "the team won", {"labels": ["sports", "politics"]}))


@call("task-similarity")
def _() -> Any:
    from tests.snapshots import models

    picture = models.picture()
    return {
        "picture": _task("clip", picture, {"labels": ["a ring", "a square"]}),
        "text": _task("clip", "a picture with a square", {"image": picture}),
    }


# A run, its tables and its reports.


@cache
def _ran() -> Any:
    import whence

    data = Path("reviews.tsv")
    data.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    return whence.run(
        model="reviews", data=str(data), out="run", dtype="float64", device="cpu", methods=("attcat", "rollout"),
        metrics=("comprehensiveness", "sufficiency"), audit=("permutation",), rankings=2,
    )  # fmt: skip


@call("run-tables")
def _() -> Any:
    found = {}
    for name in ("explanations", "metrics"):
        table = _ran().table(name).to_table()
        rows = table.to_pylist()
        rows.sort(key=lambda row: (row["row"], row["method"], str(row.get("metric"))))
        found[name] = {"columns": {one.name: str(one.type) for one in table.schema}, "rows": rows}
    return found


@call("run-facts")
def _() -> Any:
    run = _ran()
    return {"facts": run.facts(), "repr": repr(run), "manifest": run.manifest,
            "explanation": run.explanation(1, "attcat")}  # fmt: skip


for _form in ("dict", "str", "html", "markdown", "latex"):
    call(f"run-report-{_form}")(lambda form=_form: _FORMS[form](_ran().report()))


# Surfaces.


@call("openapi")
def _() -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from build_openapi import describe_api
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return json.loads(describe_api())


@call("help")
def _() -> Any:
    return "\n".join(command(*words.split(), "--help") for words in COMMANDS)


for _kind in ("methods", "metrics", "experiments", "models"):

    @call(f"list-{_kind}")
    def _(kind: str = _kind) -> Any:
        each = [] if kind == "models" else [command("list", kind, one) for one in names(kind)]
        return "\n".join([command("list", kind), *each])


@call("api")
def _() -> Any:
    import whence

    def asked(what: Any) -> Any:
        try:
            signature = inspect.signature(what)
        except (TypeError, ValueError):
            return None
        return [
            f"{one.kind.name.lower()} {one.name}"
            + ("" if one.default is one.empty else f" = {one.default}")
            for one in signature.parameters.values()
        ]

    found = {}
    for name in whence.__all__:
        one = getattr(whence, name)
        found[name] = {"call": asked(one), "doc": inspect.getdoc(one)} if callable(one) else None
        if inspect.isclass(one):
            own = [each for each in dir(one) if not each.startswith("_")]
            found[name]["has"] = {each: asked(getattr(one, each)) for each in own}
    return found


_CPU = ("--device", "cpu", "--dtype", "float64")


@call("cli-explain")
def _() -> Any:
    methods = ("--method", "attcat", "--method", "leave_one_out")
    return "\n".join(
        [
            command("explain", TEXTS[0], *methods, *_CPU),
            command("explain", "--image", "shapes:3", *_CPU),
            command("explain", "a film", "--method", "atcat"),
        ]
    )


@call("cli-explain-json")
def _() -> Any:
    return printed("explain", TEXTS[0], "--method", "gradient", "--json", *_CPU)


@call("cli-trust")
def _() -> Any:
    return command("trust", TEXTS[0], "--method", "attcat", *_CPU)


@call("cli-run")
def _() -> Any:
    _ran()
    return "\n".join(
        [
            command("report", "run"),
            command("store", "verify", "run"),
            command("store", "export", "run", "--table", "metrics", "--to", "metrics.csv"),
            Path("metrics.csv").read_text(encoding="utf-8"),
        ]
    )
