"""The GPU benchmark, tried on a CPU at tiny sizes, and the page that is written from its rows.

That the page is up to date with the stored results is in tests/contract/test_docs.py, with all other pages.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.speed import growth, page  # noqa: E402
from bench.speed.table import format_table  # noqa: E402


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    out = tmp_path_factory.mktemp("speed")
    command = [
        sys.executable,
        str(ROOT / "bench" / "speed" / "gpu.py"),
        "--tiny",
        "--device",
        "cpu",
    ]
    command += ["--repeats", "1", "--only", "materialised,batch", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = [json.loads(line) for line in (out / "speed-gpu.jsonl").read_text().splitlines()]
    assert done.stdout.endswith((out / "table.txt").read_text())
    return found


def test_gpu_benchmark_runs_from_source_and_logs_every_row_with_its_machine(rows):
    assert [row for row in rows if "error" in row] == []
    assert {row["section"] for row in rows} == {"materialised", "batch"}
    for row in rows:
        assert {"torch", "transformers", "machine", "source", "day"} <= set(row)


def test_gpu_benchmark_with_written_out_maps_gives_the_same_scores(rows):
    same = [row for row in rows if row["what"] == "maps written out, the same scores"]
    assert [row["model"] for row in same] == ["bert", "llama"]
    for row in same:
        # A few hundred roundings of float32, 1e-7 each; a wrong map is off by the size of the scores.
        assert row["off"] < 1e-4 and row["spearman"] > 0.99


def test_gpu_benchmark_batch_gives_the_scores_of_its_singles(rows):
    (row,) = [row for row in rows if "faster" in row]
    assert row["off"] < 1e-4  # as above


def test_gpu_benchmark_logs_a_failing_section_as_a_row_and_continues(monkeypatch, tmp_path):
    import torch
    from bench.speed import gpu
    from bench.speed.measuring import Clock, Log
    from bench.speed.on_gpu.setting import Setting

    def fails(_):
        raise RuntimeError("nothing works")

    log = Log(tmp_path / "rows.jsonl")
    setting = Setting(Clock(torch.device("cpu")), log, tiny=True)
    assert gpu._run_section(fails, "first", setting)
    with log.open_section("second"), setting.guard("one", tokens=3):
        raise torch.OutOfMemoryError("too much")
    kept = [json.loads(line) for line in log.file.read_text().splitlines()]
    assert kept[0]["error"] == "RuntimeError: nothing works"
    assert kept[-1]["error"].startswith("out of memory") and kept[-1]["tokens"] == 3
    assert "nothing works" in format_table(kept)


def _ratio(**values):
    told = {"seconds": 0.011, "low": 0.01, "high": 0.012, "n": 15, "target": 1.1, "ratio": 1.05}
    where = {"section": "llama", "what": "generic_attention", "model": "llama", "inputs": 1}
    peak = {"peak": 2**31, "peak_ratio": 1.02, "against": "bare forward + backward"}
    return {**told, **where, **peak, "tokens": 2048, **values}


@pytest.fixture
def store_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(page, "RESULTS", tmp_path)

    def store(*rows):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "speed-gpu.jsonl").write_text(text)

    return store


def test_targets_table_shows_the_last_run_and_marks_missing_and_missed_rows(store_rows):
    store_rows(_ratio(ratio=3.0), _ratio(ratio=1.05), _ratio(tokens=8192, ratio=1.25))
    lines = page.render_targets().splitlines()
    assert (
        sum("not measured" in line for line in lines) == len(lines) - 4
    )  # less two heads, two rows
    (short,) = [line for line in lines if "1 x 2,048" in line and "11 (10 to 12, n 15)" in line]
    assert "| 1.05 | ≤ 1.1 | 1.02 (2.0 GiB) |" in short
    assert any("| 1.25 | ≤ 1.1, missed |" in line for line in lines)


def test_maps_table_shows_out_of_memory_in_its_cell(store_rows):
    about = {"section": "materialised", "model": "llama", "inputs": 1, "tokens": 8192}
    store_rows({**about, "what": "maps written out", "error": "out of memory: tried to allocate"})
    assert "| Llama | 1 x 8,192 | out of memory | not measured |" in page.render_maps()


def test_growth_slope_of_quadratic_points_is_two():
    points = [(float(x), 3.0 * x * x) for x in (1, 2, 4, 8)]
    assert growth.compute_slope(points) == pytest.approx(2)
    assert growth.compute_slope(points[:1]) is None


def test_growth_drawing_and_table_give_the_slope_of_each_line(store_rows):
    store_rows(
        *(
            {"section": "growth", "what": what, "moves": "length", "x": x, "seconds": x * 1e-3}
            for what in growth.LINES
            for x in (512, 1024, 2048)
        )
    )
    drawn = page.DRAWINGS["reference/speed-time.svg"]()
    assert drawn is not None and drawn.count("slope 1.00</text>") == 3
    assert page.DRAWINGS["reference/speed-memory.svg"]() is None
    assert "tokens of one input, 512 to 2,048 | 1.00 | 1.00 | 1.00 |" in page.render_growth()
