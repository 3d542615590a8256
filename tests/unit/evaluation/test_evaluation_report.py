"""Evaluation output in every format: terminal, CSV, Markdown, LaTeX, SVG and HTML, saved and loaded."""

import csv
import xml.etree.ElementTree as ElementTree
from io import StringIO

import pytest

import whence
from tests.unit.evaluation.conftest import (
    METHODS,
    TEXTS,
    assert_in_all_text_formats,
    render_all_formats,
)
from whence.core.errors import BadParameter, CannotRead
from whence.render.document import choose_decimals, format_interval
from whence.studies.evaluation.evaluation import Evaluation


def test_evaluation_pairs_appear_in_csv_and_text_and_are_omitted_for_seven_methods(
    table, explainer, tmp_path
):
    path = tmp_path / "pairs.csv"
    rows = list(csv.DictReader(StringIO(table.to_csv(path, what="pairs"))))
    assert path.read_text() == table.to_csv(what="pairs")
    assert [row["metric"] for row in rows] == table.metrics
    for row, pair in zip(rows, table.payload["pairs"], strict=True):
        assert (row["a"], row["b"], row["n"]) == ("attcat", "grad_x_input", "8")
        assert float(row["gain"]) == pair["gain"]["mean"]
        assert float(row["low"]) == pair["gain"]["low"]
        assert float(row["p"]) == pair["p"]
    with pytest.raises(BadParameter, match="what must be 'cells' or 'pairs'"):
        table.to_csv(what="rows")
    pair = table.pairs("comprehensiveness")[0]
    digits = choose_decimals([pair["gain"]])
    assert_in_all_text_formats(
        table, f"{format_interval(pair['gain'], digits, 8)} p={pair['p']:.3f}"
    )
    many = [*METHODS, "gradient", "rollout", "raw_attention", "random", "norm"]
    found = whence.evaluate(explainer, TEXTS[:2], many, "comprehensiveness")
    assert "attcat over" not in str(found)
    # Seven methods have 21 pairs.
    assert "The 21 comparisons of each two methods are in the JSON object" in str(found)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_evaluation_in_a_terminal_of_40_to_120_columns_never_cuts_method_names(explainer, width):
    from rich.console import Console

    methods = ["attcat", "transformer_attribution", "leave_one_out"]
    found = whence.evaluate(explainer, TEXTS, methods, ["comprehensiveness", "infidelity"])
    out = Console(width=width, file=StringIO())
    out.print(found)
    shown = out.file.getvalue()
    # In the table of figures, beside two others, and with its costs; more often where tables are split.
    assert shown.count("transformer_attribution") >= 4
    assert shown.replace("\n", " ").count("transformer_attribution over") >= 1
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    for word in ("forwards", "backwards", "explained", "8 of 8"):
        assert word in shown


def test_evaluation_on_an_ascii_console_uses_ascii_signs_for_arrows(table):
    from io import BytesIO, TextIOWrapper

    from rich.console import Console

    raw = BytesIO()
    out = TextIOWrapper(raw, "ascii", write_through=True)
    Console(width=100, file=out).print(table)
    assert b"comprehensiveness ^ n=8" in raw.getvalue()
    assert b"v less is better" in raw.getvalue()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_evaluation_csv_quotes_model_names_that_start_like_a_formula(table, start):
    model = {**table.payload["model"], "name": f"{start}1+1"}
    found = Evaluation({**table.payload, "model": model})
    for what in ("cells", "pairs"):
        for row in csv.DictReader(StringIO(found.to_csv(what=what))):
            assert row["model"] == f"'{start}1+1"
            # A number may be negative and stays one.
            assert float(row["gain"]) in [
                one["gain"]["mean"] for one in (*found.payload["cells"], *found.payload["pairs"])
            ]


def test_evaluation_csv_markdown_latex_and_svg_parse_back_to_the_cells(table):
    rows = list(csv.DictReader(StringIO(table.to_csv())))
    assert [(row["method"], row["metric"]) for row in rows] == [
        (cell.method, cell.metric) for cell in table.cells
    ]
    for row, cell in zip(rows, table.cells, strict=True):
        assert float(row["mean"]) == cell.value.mean
        assert float(row["random_low"]) == cell.null.low
        assert float(row["p"]) == cell.p
        assert row["best"] == str(cell.best)
    lines = table.to_markdown().splitlines()
    grid = [line for line in lines if line.startswith("|")]
    assert {line.count(" | ") for line in grid[:5]} == {2}
    assert grid[0].startswith("| faithfulness | comprehensiveness ↑ n=8 | infidelity ↓ n=8 |")
    latex = table.to_latex()
    # The means, the differences of two methods, the costs.
    assert latex.count("\\toprule") == latex.count("\\bottomrule") == 3
    body = latex[latex.index("\\midrule") : latex.index("\\bottomrule")]
    assert "grad\\_x\\_input" in body
    assert all(line.count("&") == 2 for line in body.splitlines() if line.endswith("\\\\"))
    assert latex.count("{") == latex.count("}")
    root = ElementTree.fromstring(table.plot())
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    assert len(list(circles)) == len(table.cells)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"attcat", "comprehensiveness ↑", "infidelity ↓"} <= set(texts)


def test_evaluation_save_and_load_round_trip_and_bad_files_are_refused(table, tmp_path):
    found = Evaluation.load(table.save(tmp_path / "table.json"))
    assert found.to_dict() == table.to_dict()
    assert str(found) == str(table)
    (tmp_path / "other.json").write_text('{"version": 1}')
    with pytest.raises(CannotRead, match="not a saved evaluation"):
        Evaluation.load(tmp_path / "other.json")
    with pytest.raises(CannotRead, match="version 2"):
        Evaluation.from_dict({**table.to_dict(), "version": 2})
    with pytest.raises(CannotRead, match="KeyError"):
        Evaluation.from_dict({**table.to_dict(), "cells": [{}]})


def test_evaluation_with_a_hostile_model_name_is_escaped_in_html_svg_and_text(table):
    model = {**table.payload["model"], "name": "<b>&_%$\x1b[31m|"}
    found = Evaluation({**table.payload, "model": model})
    shown = render_all_formats(found)
    assert "<b>" not in shown["html"] + shown["svg"]
    ElementTree.fromstring(shown["svg"])  # control characters are not XML
    assert not any("\x1b" in shown[name] for name in ("plain", "rich", "markdown", "latex"))
