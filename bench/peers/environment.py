"""List of the peer libraries, and their virtual environments: made by pip, with disk size and duration.

A peer is asked for by its name, with the torch of constraints.txt and no other pin, so that pip's own resolver
decides; what it decided is noted. The environments lie under build/peers and are kept.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "peers"
LIMIT = 900  # seconds for one pip install; more is noted as a failure
KEPT = ("torch", "transformers", "tokenizers", "numpy")  # versions that every row carries


@dataclass(frozen=True)
class Peer:
    """A library with its pip requirements and adapter."""

    name: str
    requirement: str  # as its own documentation says it
    package: str  # the distribution, whose version counts
    module: str  # what is imported
    uses: str = ""  # the import statement, where `import MODULE` does not load the explainers
    adapter: str = ""  # the script that calls it, by default the one of its name
    extra: tuple[str, ...] = ()  # packages that the library needs and does not require
    home: str = ""  # the peer whose environment it is in, if not its own
    why: str = ""  # reason for a second version of a library

    @property
    def script(self) -> Path:
        """Return the script that is run inside the peer's environment."""
        return Path(__file__).parent / "adapters" / f"{self.adapter or self.module}.py"


PEERS = (
    Peer("whence", ".", "whence", "whence", "from whence import load"),
    Peer(
        "captum", "captum", "captum", "captum", "from captum import attr", extra=("scikit-learn",)
    ),
    Peer("interpreto", "interpreto", "interpreto", "interpreto"),
    Peer("shap", "shap", "shap", "shap"),
    Peer("lime", "lime", "lime", "lime", "from lime import lime_text"),
    Peer(
        "transformers-interpret",
        "transformers-interpret",
        "transformers-interpret",
        "transformers_interpret",
    ),
    Peer("ferret", "ferret-xai", "ferret-xai", "ferret"),
    Peer(
        "ferret 0.4.1",
        "ferret-xai==0.4.1",
        "ferret-xai",
        "ferret",
        why="an older release, which pip takes where a transformers that the newest does not allow is asked for",
    ),
    Peer("bertviz", "bertviz", "bertviz", "bertviz"),
    Peer("inseq", "inseq", "inseq", "inseq", extra=("scikit-learn",)),
    Peer(
        "whence on generation",
        ".",
        "whence",
        "whence",
        "from whence import load",
        adapter="whence_generation",
        home="whence",
    ),
)


def get_peer(name: str) -> Peer:
    """Return the peer of a name."""
    found = [one for one in PEERS if one.name == name]
    if not found:
        raise SystemExit(
            f"There is no peer {name!r}; there are {', '.join(p.name for p in PEERS)}."
        )
    return found[0]


def get_folder(one: Peer) -> Path:
    """Return the peer's environment."""
    return PLACE / (one.home or one.name).replace(" ", "-")


def get_python(one: Peer) -> Path:
    """Return the interpreter of the peer's environment."""
    return get_folder(one) / ("Scripts" if os.name == "nt" else "bin") / "python"


def read_torch_pin() -> str:
    """Return the torch that all environments get, from constraints.txt."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("torch=="):
            return line.strip()
    raise SystemExit("constraints.txt names no torch==.")


def list_requirements(one: Peer) -> list[str]:
    """Return pip's requirements; the peer precedes transformers, so that its newest release wins."""
    return [read_torch_pin(), one.requirement, *one.extra, "transformers"]


def strip_paths(line: str) -> str:
    """Return a line of output without paths and addresses of this machine."""
    line = re.sub(r"(file|https?)://\S+", "ADDRESS", line)
    return re.sub(r"(/[\w.+@-]+){2,}/", ".../", line).strip()


def extract_complaint(said: str) -> str:
    """Return pip's error message: its first line with ERROR, and the lines that belong to it."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return strip_paths(" ".join(errors[:2]) if errors else (lines[-1] if lines else "no words"))


def list_packages(one: Peer) -> dict[str, str]:
    """Return every distribution of the environment with its version, pip and setuptools left out."""
    command = [str(get_python(one)), "-m", "pip", "list", "--format", "json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = json.loads(listed[listed.index("[") :])
    return {r["name"].lower(): r["version"] for r in rows if r["name"] not in ("pip", "setuptools")}


def measure_disk(one: Peer) -> dict[str, float]:
    """Return the environment's size on disk, and torch's share of it."""
    site = next((get_folder(one) / "lib").glob("python3*/site-packages"))
    sizes = {"all": 0, "torch": 0}
    for file in site.rglob("*"):
        if file.is_file() and file.suffix != ".pyc" and not file.is_symlink():
            size = file.stat().st_size
            sizes["all"] += size
            sizes["torch"] += size if file.relative_to(site).parts[0] == "torch" else 0
    return {what: round(size / 2**20) for what, size in sizes.items()}


def install(one: Peer, again: bool = False) -> dict[str, Any]:
    """Build the environment if it is missing, and return the result of the installation."""
    note = get_folder(one) / "installed.json"
    if note.is_file() and not again:
        return dict(json.loads(note.read_text(encoding="utf-8")))
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(get_folder(one))], check=True)
    began = time.monotonic()
    # Nothing is compiled ahead, which would take longer than all else; the first import does it, and is not timed.
    command = [
        str(get_python(one)),
        "-m",
        "pip",
        "install",
        "--no-input",
        "--no-compile",
        *list_requirements(one),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, cwd=ROOT, check=False
        )
        failed = extract_complaint(done.stderr) if done.returncode else ""
    except subprocess.TimeoutExpired:
        failed = f"pip was not done after {LIMIT} seconds"
    result: dict[str, Any] = {
        "asked": list_requirements(one),
        "ok": not failed,
        "seconds": round(time.monotonic() - began),
    }
    if failed:
        result["error"] = failed
    else:
        there = list_packages(one)
        result |= {"packages": len(there), "megabytes": measure_disk(one)}
        result["versions"] = {name: there[name] for name in (one.package, *KEPT) if name in there}
        check = [str(get_python(one)), "-m", "pip", "check"]
        said = subprocess.run(check, capture_output=True, text=True, check=False)
        result["conflicts"] = [] if not said.returncode else said.stdout.strip().splitlines()[:5]
    note.write_text(json.dumps(result), encoding="utf-8")
    return result
