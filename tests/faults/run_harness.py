"""Harness of the fault tests: `Launcher` of run processes, `Scene` of one small run, contents of its store."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WINDOW, CHUNK = 8, 3  # examples
METHODS, METRICS = "attcat,gradient", "comprehensiveness"
OTHERS = ("log.jsonl", "damaged/", "lock")  # who, when and what was broken: no results
WORDS = (
    "gripping",
    "dull",
    "film",
    "plot",
    "moving",
    "thin",
    "wonderful",
    "boring",
    "actors",
    "story",
)
RARE = "terrible"  # the word that traps wait for


class Launcher:
    """Processes that run whence, started by one that has imported it."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.launcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        self._answer()

    def start(self, argv: list[str], log: Path, **harm: dict[str, Any]) -> int:
        """Start a run, and return its process."""
        order = {"argv": argv, "log": str(log), "harm": harm, "window": WINDOW, "chunk": CHUNK}
        return int(self._ask(order)["pid"])

    def wait(self, pid: int) -> int:
        """Wait for a run to end, and return its exit status; one that a signal ended has minus its number."""
        return int(self._ask({"wait": pid})["status"])

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=30)  # closes its orders, which is what it waits for

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the launcher died"
        found: dict[str, Any] = json.loads(line)
        return found


@dataclass(frozen=True)
class Scene:
    """A data set, and runs over it into folders of one place."""

    launcher: Launcher
    folder: Path

    @property
    def data(self) -> Path:
        """The data: sentences of a few known words, some of them twice, some with the word that traps wait for."""
        file = self.folder / "reviews.jsonl"
        if not file.is_file():
            file.write_text("".join(json.dumps(row) + "\n" for row in rows()))
        return file

    def argv(self, out: Path, *more: str) -> list[str]:
        """Return the command that runs over the data."""
        argv = ["run", "--model", "reviews", "--data", str(self.data), "--methods", METHODS]
        return [*argv, "--metrics", METRICS, "--rankings", "2", "--out", str(out), *more]

    def start(self, out: Path, *more: str, **harm: dict[str, Any]) -> int:
        """Start a run over the data."""
        return self.launcher.start(self.argv(out, *more), self.log(out), **harm)

    def run(self, out: Path, *more: str, **harm: dict[str, Any]) -> int:
        """Run over the data, and return the exit status."""
        return self.launcher.wait(self.start(out, *more, **harm))

    def store(self, *argv: str, out: Path) -> int:
        """Run `whence store ...`."""
        return self.launcher.wait(self.launcher.start(["store", *argv], self.log(out)))

    def log(self, out: Path) -> Path:
        """Return the file of all that was said about a folder."""
        return out.with_suffix(".log")

    def told(self, out: Path) -> str:
        """Return all that was said about a folder, and forget it."""
        log = self.log(out)
        text = log.read_text() if log.is_file() else ""
        log.write_text("")
        return text


def rows() -> list[dict[str, Any]]:
    """Return the data: 19 sentences, so that the last window and its last chunk are not full."""
    found = []
    for number in range(18):
        picked = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 3 + number % 5)]
        if number in (5, 13, 16):
            picked.insert(1, RARE)
        found.append(
            {"text": f"a {' '.join(picked)}", "label": "positive" if number % 2 else "negative"}
        )
    return [*found, found[3]]


def contents(out: Path) -> dict[str, bytes]:
    """Return what a store holds: all but who, when and what was broken."""
    every = {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in every.items() if not name.startswith(OTHERS)}


def kill(pid: int) -> None:
    """kill -9, if it still runs."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def list_session_processes(session: int) -> list[int]:
    """Return the processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                told = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(told[3]) == session and told[0] != "Z":
                    found.append(int(entry.name))
    return found
