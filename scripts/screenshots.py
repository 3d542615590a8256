"""Screenshots of the app for docs/images: a real server, a real browser, the built-in models.

make pictures     # needs Chromium (make browser)
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from playwright.sync_api import Page, expect, sync_playwright

PLACE = Path(__file__).resolve().parents[1] / "docs" / "images"
MODELS = ("reviews", "shapes")
TEXT = quote("the plot is thin, but the actors are wonderful")
MAPS = "generic_attention,transformer_attribution"
# Name of the file, link, height: photographed after its trust card was requested.
SHOTS = (
    ("app", f"#/explain?model=reviews&text={TEXT}&m=attcat,transformer_attribution", 1010),
    ("app-picture", f"#/explain?model=shapes&picture=shapes:7&target=ring&beside=square&m={MAPS}", 1300),
)  # fmt: skip
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 300  # seconds for a start or for a card


@contextmanager
def serve_app() -> Iterator[str]:
    """Start the app on a free port, and yield its address, with the token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    models = [word for name in MODELS for word in ("--model", name)]
    command = [sys.executable, "-m", "whence", "app", "--no-open", "--port", str(port), *models]
    address = f"http://127.0.0.1:{port}/"
    token = secrets.token_urlsafe(24)
    own = {**os.environ, "WHENCE_TOKEN": token}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=own) as process:
        try:
            until = time.monotonic() + PATIENCE
            while not _is_answering(address, token):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("whence app did not start.")
                time.sleep(0.2)
            yield f"{address}?token={token}"
        finally:
            process.terminate()


def _is_answering(address: str, token: str) -> bool:
    try:
        with urlopen(f"{address}api/health?token={token}", timeout=5):
            return True
    except (URLError, ConnectionError, TimeoutError):
        return False


def wait_until_settled(page: Page) -> None:
    """Wait until no request is under way."""
    expect(page.get_by_role("main").locator(":is(h1, h2)").first).to_be_attached()
    expect(page.locator("[aria-busy='true']")).to_have_count(0)
    expect(page.locator("progress")).to_have_count(0)


def main() -> None:
    """Take all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("There is no Chromium: `make browser` installs it.")
    expect.set_options(timeout=PATIENCE * 1000)
    with serve_app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, link, height in SHOTS:
            page = browser.new_page(
                viewport={"width": 1360, "height": height}, color_scheme="light"
            )
            page.goto(address + link)
            page.get_by_role("button", name="Test it").click()
            expect(page.get_by_text("Nobody has asked yet")).to_have_count(0)
            wait_until_settled(page)
            page.evaluate("document.activeElement?.blur()")
            file = PLACE / f"{name}.png"
            page.screenshot(path=file)
            print(f"wrote {file}")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
