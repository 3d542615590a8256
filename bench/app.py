"""Benchmark of the app against its budgets: payloads and paint times at 32 to 512 tokens, and many clients.

    python bench/app.py [--repeats N] [--json FILE]

A real server, a real browser without a GPU, and an untrained model (`serving.large`): what is measured does not
depend on what it learnt. Paint times are from the last byte of an answer, or from the pointer's or slider's event,
to the frame after the picture was drawn; each is the median of some repeats. The budgets are for two idle cores.
"""

import argparse
import gzip
import json
import shutil
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from explain import ROOT, collect_provenance
from playwright.sync_api import Page, expect, sync_playwright
from serving import BEARER, build_text, run_crowd, save_large_model, serve_app

RESULTS = ROOT / "bench" / "results" / "app.jsonl"
STATIC = ROOT / "src" / "whence" / "app" / "static"
LENGTHS = (32, 128, 512)
CLIENTS, REQUESTS = 8, 50
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

Row = tuple[str, int | None, float | None, float, str]  # what, tokens, budget, measured, unit

# Two frames after something happened, it has been painted.
PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
# Runs in the page: what an event costs until the page says the new share, in the frame that has the new picture.
SLIDE = """async ([value]) => {
    const slider = document.querySelector(".coverage input"), said = document.querySelector(".coverage output");
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    const changed = new Promise(done => new MutationObserver((_, seen) => { seen.disconnect(); done(); })
        .observe(said, { childList: true, characterData: true, subtree: true }));
    const started = performance.now();
    set.call(slider, value);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await changed;
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - started;
}"""
# All work of a hover is done when its event has been handled.
HOVER = """() => {
    const stage = document.querySelector("figure[data-picture='flow'] .canvases");
    const box = stage.getBoundingClientRect(), times = [];
    for (let i = 1; i < 60; i++) {
        const event = new PointerEvent("pointermove", { bubbles: true,
            clientX: box.left + box.width * i / 60, clientY: box.top + box.height * ((7 * i) % 60) / 60 });
        const started = performance.now();
        stage.dispatchEvent(event);
        times.push(performance.now() - started);
    }
    return times;
}"""
# From the last byte of the thumbnails to the frame after the picture is there.
THUMBNAILS = """async () => {
    const choice = document.querySelector("section.heads select");
    const set = Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, "value").set;
    performance.clearResourceTimings();
    const drawn = new Promise(done => {
        const paint = CanvasRenderingContext2D.prototype.drawImage;
        CanvasRenderingContext2D.prototype.drawImage = function (...given) {
            CanvasRenderingContext2D.prototype.drawImage = paint;
            done();
            return paint.apply(this, given);
        };
    });
    set.call(choice, "thumbnails");
    choice.dispatchEvent(new Event("change", { bubbles: true }));
    await drawn;
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const asked = performance.getEntriesByType("resource").filter(one => one.name.endsWith("/api/tensors")).at(-1);
    return [performance.now() - asked.responseEnd, asked.encodedBodySize];
}"""
PAYLOAD = """() => performance.getEntriesByType("resource").filter(one => one.name.includes("/api/"))
    .reduce((sum, one) => sum + one.encodedBodySize, 0)"""


def measure_bundle() -> list[Row]:
    """Measure the size of the page's files."""
    size = sum(
        len(gzip.compress((STATIC / name).read_bytes(), 9))
        for name in ("app.js", "app.css", "index.html")
    )
    return [("bundle, compressed", None, 250, size / 1000, "kB")]


def wait_for_flow(page: Page) -> None:
    """Wait until the flow is on the page and no request is under way."""
    page.locator("figure[data-picture='flow'] canvas").first.wait_for(timeout=120_000)
    expect(page.locator("[aria-busy='true']")).to_have_count(0, timeout=120_000)


def open_page(browser: Any, url: str) -> tuple[Page, float, float]:
    """Open a page; return it with the seconds until its first text, and until the flow was painted."""
    size = {"width": 1360, "height": 900}
    page = browser.new_context(viewport=size, extra_http_headers=BEARER).new_page()
    page.goto(url)
    wait_for_flow(page)
    painted = page.evaluate(PAINTED) / 1000
    first = (
        page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
    )
    return page, first, painted


def measure_page(browser: Any, url: str, tokens: int, repeats: int) -> list[Row]:
    """Measure one input: paint times, payloads, and response times of slider and hover."""
    link = f"{url}#/explain?text={quote(build_text(tokens))}"
    open_page(browser, link)[0].context.close()  # the model is loaded, and has seen the text
    firsts, paints, slides, hovers, heads = [], [], [], [], []
    for _ in range(repeats):
        page, first, painted = open_page(browser, link)
        payload = page.evaluate(PAYLOAD)
        firsts.append(first)
        paints.append(painted)
        slides += [page.evaluate(SLIDE, [value]) for value in ("90", "20", "80", "50")]
        hovers += page.evaluate(HOVER)
        shown, size = page.evaluate(THUMBNAILS)
        heads.append(shown)
        page.context.close()
    return [
        ("first paint", tokens, 1500, 1000 * statistics.median(firsts), "ms"),
        ("flow painted, of a text seen before", tokens, 1500 if tokens == 128 else None,
         1000 * statistics.median(paints), "ms"),
        ("first payload", tokens, {128: 1000, 512: 6000}.get(tokens), payload / 1000, "kB"),
        ("all heads in small, payload", tokens, None, size / 1000, "kB"),
        ("all heads in small, painted", tokens, 150 if tokens == 512 else None, statistics.median(heads), "ms"),
        ("coverage slider", tokens, {128: 50, 512: 150}.get(tokens), statistics.median(slides), "ms"),
        ("hover, 95 of 100", tokens, 16, statistics.quantiles(hovers, n=20)[-1], "ms"),
    ]  # fmt: skip


def measure_crowd(url: str) -> list[Row]:
    """Measure the response times of many clients at once."""
    found = run_crowd(url, CLIENTS, REQUESTS)
    what = f"{REQUESTS} requests of {CLIENTS} clients"
    for error in found["first"]:
        print(error)
    return [
        (f"{what}: errors", None, 0, found["errors"], ""),
        (f"{what}: mixed up", None, 0, found["mixed up"], ""),
        (f"{what}", None, None, found["seconds"], "s"),
    ]


def measure(repeats: int) -> list[Row]:
    """Start a server and a browser, and run all measurements."""
    rows = measure_bundle()
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        model = save_large_model(Path(folder) / "large")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        with serve_app("--model", str(model), "--model", "reviews") as url:
            for tokens in LENGTHS:
                rows += measure_page(browser, url, tokens, repeats)
            rows += measure_crowd(url)
        browser.close()
    return rows


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS, help="append the rows to this file")
    options = parser.parse_args()
    rows = measure(options.repeats)
    print(f"{'what':44} {'tokens':>6} {'budget':>8} {'measured':>9}    ")
    for what, tokens, budget, value, unit in rows:
        held = "" if budget is None or value <= budget else "  over"
        limit = "" if budget is None else f"{budget:g}"
        print(f"{what:44} {tokens or '':>6} {limit:>8} {value:9.1f} {unit:2}{held}")
    with options.json.open("a") as stream:
        for what, tokens, budget, value, unit in rows:
            row = {
                "what": what,
                "tokens": tokens,
                "budget": budget,
                "measured": value,
                "unit": unit,
            }
            stream.write(json.dumps({**collect_provenance(0), **row}) + "\n")


if __name__ == "__main__":
    main()
