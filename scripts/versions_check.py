"""Check that tests pass with the oldest versions in pyproject.toml, or the newest, in a fresh environment.

    python scripts/versions_check.py oldest    # every dependency at its lower bound, then every extra at its own
    python scripts/versions_check.py newest    # every dependency at the newest version on the index

Each time in an environment of its own under build/versions, which is removed again (--keep leaves it). A plain torch
brings gigabytes of CUDA on Linux, so "newest" takes the version of constraints.txt; --torch newest takes the newest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "versions"

# Imports of the selection beside whence; at their lower bound, too.
TOOLS = ("httpx", "hypothesis", "pytest", "pytest-xdist", "scikit-learn")
# Each dependency is covered by at least one of these, with the calls of a user.
SELECTION = (
    "tests/parity/test_golden.py",  # torch, transformers: the authors' own figures
    "tests/parity/test_relevance.py",
    "tests/contract/test_methods.py",  # every method on several architectures
    "tests/contract/test_public_api.py",
    "tests/cli/test_cli.py",  # typer, rich
    "tests/cli/test_explain_image.py",  # pillow
    "tests/cli/test_run.py",
    "tests/web/test_routes.py",  # fastapi, pydantic, uvicorn
    "tests/web/test_security.py",
    "tests/unit/test_load.py",  # transformers, safetensors
    "tests/unit/test_recognise.py",
    "tests/unit/test_stats.py",  # numpy, scipy
    "tests/unit/test_intervals.py",
    "tests/unit/test_parquet.py",  # pyarrow
    "tests/unit/test_store.py",
)
EXTRAS = (
    "tests/unit/test_hub_datasets.py",  # datasets
    "tests/unit/test_dataset_addresses.py",  # and fsspec
    "tests/unit/test_widget.py",  # anywidget
    # ray; but for the test in which a node is lost: with two nodes on one machine, the driver may belong to that one.
    "tests/faults/test_ray.py::test_serial_processes_and_ray_give_the_same_rows",
    "tests/faults/test_ray.py::test_actor_group_with_an_unloadable_model_raises_the_workers_unknown_model",
    "tests/faults/test_ray.py::test_ray_backend_without_a_cluster_raises_workers_failed",
)


def main() -> int:
    """Build the environment, print its versions, run the selection, and remove it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("which", choices=["oldest", "newest"])
    parser.add_argument(
        "--torch", default=read_constraint("torch"), metavar="VERSION", help="or newest"
    )
    parser.add_argument("--keep", action="store_true", help="leave the environment there")
    parser.add_argument("--python", default=sys.executable, help="the Python to make it with")
    asked = parser.parse_args()

    place, began = PLACE / asked.which, time.monotonic()
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([asked.python, "-m", "venv", str(place)], check=True)
    if asked.which == "oldest":
        steps = [(pin_lowest(list_core()), SELECTION), (pin_lowest(list_extras()), EXTRAS)]
    else:
        steps = [(pin_newest(list_core() + list_extras(), asked.torch), SELECTION + EXTRAS)]
    failed = 0
    for wanted, tests in steps:
        print(f"{asked.which}: installing {', '.join(wanted)}", flush=True)
        install(python, wanted)
        print(f"installed after {time.monotonic() - began:.0f} s:", flush=True)
        subprocess.run([str(python), "-m", "pip", "list", "--format=freeze"], check=True)
        failed |= run(python, tests)
    said = "FAILED" if failed else "passed"
    print(f"{asked.which}: {said} after {time.monotonic() - began:.0f} s")
    if not asked.keep:
        shutil.rmtree(place)
    return failed


def list_core() -> list[Requirement]:
    """Return the requirements of pyproject.toml, and the tests' own tools."""
    project = _load_project()
    tools = [Requirement(line) for line in project["dependency-groups"]["dev"]]
    own = [Requirement(line) for line in project["project"]["dependencies"]]
    return own + [one for one in tools if one.name in TOOLS]


def list_extras() -> list[Requirement]:
    """Return the requirements of the extras."""
    own = _load_project()["project"]
    lines = [line for extra in own["optional-dependencies"].values() for line in extra]
    return [one for one in map(Requirement, lines) if one.name != own["name"]]


def _load_project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pin_lowest(requirements: list[Requirement]) -> list[str]:
    """Return every requirement at its lower bound; one without, or with another bound, is an error."""
    pins = []
    for requirement in requirements:
        (bound,) = requirement.specifier
        if bound.operator != ">=":
            raise SystemExit(f"{requirement}: a requirement has one lower bound here, and no other")
        pins.append(f"{requirement.name}=={bound.version}")
    return pins


def pin_newest(requirements: list[Requirement], torch: str) -> list[str]:
    """Return every requirement as it stands, torch at the given version if there is one."""
    named = {} if torch == "newest" else {"torch": f"torch=={torch}"}
    return [named.get(one.name, str(one)) for one in requirements]


def read_constraint(name: str) -> str:
    """Return the version of a package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{name}==")).partition("==")[2]


def install(python: Path, wanted: list[str]) -> None:
    """Install packages, and this folder's code without its metadata's version bounds."""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--upgrade"]
    subprocess.run([*pip, *wanted], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)


def run(python: Path, selected: Sequence[str]) -> int:
    """Run tests in that environment; deprecation warnings are no failure here."""
    env = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    # Commands that tests start must come from that environment, not from this one.
    env["PATH"] = f"{python.parent}{os.pathsep}{env['PATH']}"
    options = ["-q", "-o", "filterwarnings=default", "--disable-warnings", "-p", "no:cacheprovider"]
    options += ["-n", os.environ.get("WORKERS", "2"), "--dist", "loadgroup"]
    command = [str(python), "-m", "pytest", *options, *selected]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
