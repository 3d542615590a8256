"""Harness for browser tests of the app: `whence app` process, sample data and runs, visitor, export readers."""

import csv
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import expect

from tests import stores
from tests.conftest import ROOT
from whence.app.access_token import TOKEN_VARIABLE, make_token
from whence.runs.store import Store

# One server serves one worker: all tests of the app run on the same.
APP = [
    pytest.mark.browser,
    pytest.mark.xdist_group("app"),
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SCREENSHOTS = ROOT / "build" / "screenshots"
START = (
    90  # seconds; on two cores that others use, importing torch alone may take a good part of them
)

# One label is wrong, and one row is an attack.
EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
ROWS = [
    ("a gripping, beautifully acted film", "positive"),
    ("dull, slow and far too long", "negative"),
    ("one of the best films of the year", "positive"),
    ("the plot is thin and the jokes are worse", "negative"),
    ("a warm and funny story that never tires", "positive"),
    ("a wonderful, moving film", "negative"),
    ("boring and lifeless from start to finish", "negative"),
    (f"a good film {EVIL}", "positive"),
]
RUN = "first <b>run"
WRONG = "a wonderful, moving film"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def table(path: Path) -> Path:
    """Write the rows as a table."""
    lines = ["text\tlabel", *("\t".join(row) for row in ROWS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def folder_model(path: Path) -> Path:
    """Save a built-in model as a folder: what such a one is called, its path, is not its id on the page."""
    from whence.explain.explainer import load

    loaded = load("reviews").loaded
    loaded.model.save_pretrained(path)
    loaded.tokenizer.save_pretrained(path)
    return path


def stored_runs(path: Path) -> Path:
    """Write some runs: one whole, with a hostile row and a failure, another, one unfinished, one damaged."""
    who = stores.identity()
    items = [stores.item(0, f"a good film {EVIL}"), *(stores.item(row) for row in range(1, 70))]
    with Store.open_locked(path / RUN) as store:
        store.begin(stores.plan(), who, stores.DATA)
        stores.complete_window(store, who, stores.window(items=items), failing=(2,))
        store.finish()
    stores.write_store(path / "second")
    with Store.open_locked(path / "unfinished") as store:
        store.begin(stores.plan(limit=40), who, stores.DATA)
        store.find_results(stores.window())
        store.add_result(stores.make_task_result(who, stores.window(), 0))
    stores.write_store(path / "torn")
    (path / "torn" / "manifest.json").write_text("{")
    return path


# What pages say while they wait for the server.
_WAITING = re.compile(
    "being asked …|Tracing …|Running both|Asking the server|Fetching the cards|Looking for (?:stored|runs)"
    "|Making the report|Reading rows"
)


class App:
    """A running `whence app`."""

    def __init__(self, folder: Path, *arguments: str, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._token = (
            make_token()
        )  # of the environment: it stays when the server dies and comes back
        self.entrance = f"{self.url}?token={self._token}"
        self._log = folder / f"app-{self.port}.log"
        command = ["-m", "whence", "app", "--no-open", "--port", str(self.port), *arguments]
        self._command = [sys.executable, *command]
        self.folder = folder
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONWARNINGS": "default", TOKEN_VARIABLE: self._token},
            )
        until = time.monotonic() + START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError(f"whence app did not start: {self.log()}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        """Return what it printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def get(self, path: str) -> dict:
        """Ask it without a browser."""
        with urlopen(
            Request(self.url + path.lstrip("/"), headers=self.bearer), timeout=30
        ) as answer:
            return json.load(answer)

    @property
    def bearer(self) -> dict[str, str]:
        """The header that scripts of a user's own send."""
        return {"Authorization": f"Bearer {self._token}"}

    def _answers(self) -> bool:
        try:
            return bool(self.get("api/health")["ok"])
        except (URLError, ConnectionError, TimeoutError):
            return False


class Visitor:
    """Opens pages of the app, and holds each of them to its manners when it is closed."""

    def __init__(self, browser, app: App) -> None:
        self._browser = browser
        self._url = app.url
        self._entrance = app.entrance
        self._open = []

    def __call__(self, link: str = "", *, forgive: str = "", **settings):
        """Open a page in a context of its own; complaints that hold `forgive` are expected."""
        settings = {
            "viewport": {"width": 1360, "height": 900},
            "reduced_motion": "reduce",
            **settings,
        }
        context = self._browser.new_context(**settings)
        context.set_default_timeout(20_000)
        page = context.new_page()
        return self.tab(page, link, forgive)

    def tab(self, page, link: str = "", forgive: str = ""):
        """Watch a page and go to a place in it."""
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: said.type in ("error", "warning") and complaints.append(said.text),
        )
        page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: self._foreign(asked.url) and complaints.append(f"asked {asked.url}"),
        )
        self._open.append((page, complaints, forgive))
        page.goto(self._entrance + link)
        return page

    def again(self, page, link: str):
        """Go to another link in the same page, which is quicker; what it held in no link is forgotten on the way."""
        page.goto(f"{self._url}#/help")
        expect(page.get_by_role("heading", name="Keys")).to_be_attached()
        page.goto(self._url + link)
        page.evaluate("document.activeElement?.blur()")
        settle(page)
        return page

    def _foreign(self, url: str) -> bool:
        return not url.startswith((self._url, "data:", "blob:"))

    def close(self) -> None:
        """Close all pages; none may have complained, asked a stranger, or opened a dialog."""
        found = [
            complaint
            for _, complaints, forgive in self._open
            for complaint in complaints
            if not forgive or forgive not in complaint
        ]
        for context in {page.context for page, _, _ in self._open}:
            context.close()
        self._open.clear()
        assert found == []


def photograph(page, name: str) -> None:
    """Keep what the page looks like, as an artefact."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def strip(page, method: str):
    """Find the text as one method tints it."""
    return page.get_by_role("toolbar", name=f"The text, tinted by {method}", exact=True)


def settle(page) -> None:
    """Wait until nothing that was asked for is on its way."""
    expect(page.get_by_role("main").locator(":is(h1, h2)").first).to_be_attached(timeout=20_000)
    expect(page.locator("[aria-busy='true']")).to_have_count(0, timeout=20_000)
    expect(page.get_by_text(_WAITING)).to_have_count(0, timeout=20_000)


def status(page):
    """Find the line that says what of the flow is shown."""
    return page.get_by_role("status").filter(has_text=re.compile("^shown "))


def edges(page) -> int:
    """Return how many edges that line says are shown."""
    settle(page)
    said = status(page).inner_text()
    return int(re.sub(r"\D", "", re.search(r"shown ([\d\s]+) edge", said)[1]))


def export_picture(page, picture: str, kind: str) -> bytes:
    """Save a picture as a file, and return what is in it."""
    settle(page)
    menu = page.locator(f"[data-export='{picture}']")
    if menu.get_attribute("open") is None:
        menu.locator("summary").click()
    with page.expect_download() as saved:
        menu.get_by_role("button", name=kind, exact=True).click()
    assert saved.value.suggested_filename == f"whence-{picture}.{kind.lower()}"
    return Path(saved.value.path()).read_bytes()


def export_picture_table(page, picture: str) -> list[dict[str, str]]:
    """Save a picture as CSV, and return its rows by column; the caption stands before them as a comment."""
    return read_csv_rows(export_picture(page, picture, "CSV"))


def read_csv_rows(content: bytes) -> list[dict[str, str]]:
    """Read a CSV file of the app as anyone does who passes over comments."""
    caption, *lines = content.decode("utf-8").splitlines()
    assert caption.startswith("# whence · ")
    return list(csv.DictReader(lines))
