"""Release check behind `make release`: builds, inspects, installs and uses the distributions.

The wheel and the source distribution stay in dist/. The environments are made under build/release and removed again;
packages come from the index, at the versions of constraints.txt.

    python scripts/release_check.py                  # the core alone, then every extra in an environment of its own
    python scripts/release_check.py --only core ray  # some of them
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

from release_contents import ROOT, build, find_sdist_problems, find_wheel_problems, read_wheel

DIST, PLACE = ROOT / "dist", ROOT / "build" / "release"
INSTALL, USE = 900, 240  # seconds that an installation, and one command, may take
TEXT = "a gripping, beautifully acted film"
ROWS = "text\tlabel\na gripping film\tpositive\na dull film\tnegative\n"

_PICKED = (
    "import sys; sys.path[:] = [p for p in sys.path if p]\n"  # never the folder it is run from
)
WORKBENCH = (
    _PICKED + f"import whence\nprint(type(whence.workbench('reviews', {TEXT!r})).__name__)\n"
)
RUN = ("run", "--model", "reviews", "--methods", "attcat", "--metrics", "none")


class Wrong(Exception):
    """Error of a release that is not fit to be published, with the reason."""


class Place:
    """An environment with the wheel in it, and an empty folder to work in."""

    def __init__(self, extra: str, wheel: Path) -> None:
        self.extra = extra
        self._home = PLACE / extra
        shutil.rmtree(self._home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(self._home)], check=True)
        self.python, self.script = (str(self._home / "bin" / name) for name in ("python", "whence"))
        what = f"{wheel}[{extra}]" if extra != "core" else str(wheel)
        constraints = str(ROOT / "constraints.txt")
        self.call(
            [self.python, "-m", "pip", "install", "--quiet", "--constraint", constraints, what],
            within=INSTALL,
        )
        self.folder = self._home / "work"
        self.folder.mkdir()
        (self.folder / "rows.tsv").write_text(ROWS, encoding="utf-8")
        (self.folder / "named").mkdir()
        (self.folder / "named" / "test.csv").write_text(ROWS.replace("\t", ","), encoding="utf-8")

    def call(self, command: list[str], *, status: int | None = 0, within: float = USE) -> str:
        """Run a command in the folder; return its output, or raise if its exit status is unexpected."""
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        env = {name: value for name, value in os.environ.items() if name not in hidden} | {
            "HF_HUB_OFFLINE": "1"
        }
        done = subprocess.run(
            command,
            cwd=getattr(self, "folder", self._home),
            env=env,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
        said = done.stdout + done.stderr
        if (status is not None and done.returncode != status) or (
            status is None and not done.returncode
        ):
            raise Wrong(
                f"[{self.extra}] {' '.join(command[1:])} ended with {done.returncode}:\n{said}"
            )
        return said

    def run_whence(self, *arguments: str, status: int | None = 0) -> str:
        """Run a command of whence."""
        return self.call([self.script, *arguments], status=status)

    def remove(self) -> None:
        """Remove the environment and the folder."""
        shutil.rmtree(self._home)


def main() -> int:
    """Run all checks, and print the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", help="core, or names of extras", default=None)
    asked = parser.parse_args()
    began = time.monotonic()
    version = re.findall(r'__version__ = "(.+)"', (ROOT / "src/whence/_version.py").read_text())[0]

    def tell(what: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {what}", flush=True)

    try:
        wheel = _build_release(version, tell)
        for extra in asked.only if asked.only is not None else ["core", *list_extras()]:
            place = Place(extra, wheel)
            tell(f"[{extra}] installed, {_measure_size(place.python)} in all")
            _check_use(place, version)
            tell(f"[{extra}] --version, list, doctor, explain, run, app: all answer")
            for name, check in EXTRAS.items():
                tell(f"[{extra}] {check(place, extra in (name, 'all'))}")
            place.remove()
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    tell(
        f"whence {version} can be published: {', '.join(path.name for path in sorted(DIST.iterdir()))}"
    )
    return 0


def list_extras() -> list[str]:
    """Return the names of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(project["project"]["optional-dependencies"])


def _build_release(version: str, tell: Callable[[str], None]) -> Path:
    """Build both, compare them with the tree, and the wheel with one built from the source distribution."""
    shutil.rmtree(DIST, ignore_errors=True)
    wheel, sdist = build(DIST)
    if wrong := find_wheel_problems(wheel, version) + find_sdist_problems(sdist, version):
        raise Wrong("\n".join(wrong))
    for path in (wheel, sdist):
        tell(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB, its files are those of the tree")
    with TemporaryDirectory(prefix="whence-release-") as made:
        # Isolated, as pip builds a source distribution.
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            made,
            str(sdist),
        ]
        subprocess.run(command, check=True, timeout=INSTALL)
        (again,) = Path(made).iterdir()
        if read_wheel(again) != read_wheel(wheel):
            raise Wrong("the wheel that the source distribution builds is another one")
    tell("the source distribution builds the same wheel")
    return wheel


def _check_use(place: Place, version: str) -> None:
    """Run the commands of a first session: version, list, doctor, explain, run, report."""
    where = place.call(
        [place.python, "-c", f"{_PICKED}import whence; print(whence.__file__)"]
    ).strip()
    _expect(
        Path(where).is_relative_to(Path(place.python).parents[1]),
        place,
        f"whence was found at {where}",
    )
    for said in (
        place.run_whence("--version"),
        place.call([place.python, "-m", "whence", "--version"]),
    ):
        _expect(version in said, place, f"--version says {said!r}")
    _expect(
        "attcat" in place.run_whence("list", "methods"), place, "no attcat in the list of methods"
    )
    _expect(
        version in place.run_whence("doctor", "--model", "reviews"),
        place,
        "doctor names another version",
    )
    said = place.run_whence("explain", TEXT, "--html", "why.html")
    _expect(
        "positive" in said and (place.folder / "why.html").is_file(),
        place,
        f"explain says {said!r}",
    )
    place.run_whence(*RUN, "--data", "rows.tsv", "--out", "run")
    _expect(
        "attcat" in place.run_whence("report", "run"), place, "no attcat in the report of a run"
    )
    _check_app(place)


def _check_app(place: Place) -> None:
    """Start the app, fetch its page and an explanation, and stop it."""
    command = [place.script, "app", "--no-open", "--port", "0"]
    log = place.folder / "app.log"
    with (
        log.open("w") as out,
        subprocess.Popen(command, cwd=place.folder, stdout=out, stderr=out) as process,
    ):
        try:
            until = time.monotonic() + USE
            while not (
                found := re.search(r"whence is at (http://\S+/)(\?token=\S+)\n", log.read_text())
            ) or not _is_answering(f"{found[1]}api/health{found[2]}"):
                if process.poll() is not None or time.monotonic() > until:
                    raise Wrong(f"[{place.extra}] the app did not start: {log.read_text()}")
                time.sleep(0.2)
            # As a browser does: the token of the address becomes a cookie.
            browser = build_opener(HTTPCookieProcessor())
            page = browser.open(found[1] + found[2], timeout=60).read().decode()
            script = re.search(r'src="\.?/?([^"]+\.js)"', page)
            _expect(script is not None, place, "the app's page loads no script")
            size = len(browser.open(found[1] + script[1], timeout=60).read()) if script else 0
            _expect(size > 100_000, place, f"the page's script has {size} bytes")
        finally:
            process.terminate()


def _is_answering(address: str) -> bool:
    try:
        with urlopen(address, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _check_notebook(place: Place, there: bool) -> str:
    said = place.call([place.python, "-c", WORKBENCH], status=0 if there else None)
    return _check_extra(place, there, said, "Workbench", "notebook")


def _check_hub(place: Place, there: bool) -> str:
    said = place.run_whence(
        *RUN, "--data", "named:test", "--out", "hub", status=0 if there else None
    )
    return _check_extra(place, there, said, "2 ", "hub")


def _check_ray(place: Place, there: bool) -> str:
    asked = (*RUN, "--data", "rows.tsv", "--out", "ray", "--backend", "ray", "--actors", "1")
    return _check_extra(
        place, there, place.run_whence(*asked, status=0 if there else None), "2 ", "ray"
    )


EXTRAS: dict[str, Callable[[Place, bool], str]] = {
    "notebook": _check_notebook,
    "hub": _check_hub,
    "ray": _check_ray,
}


def _check_extra(place: Place, there: bool, said: str, works: str, extra: str) -> str:
    """Check an output: the result if the extra is installed, else one line on how to install it."""
    if there:
        _expect(works in said, place, f"{extra} is installed, and says {said!r}")
        return f"{extra} works"
    last = said.strip().splitlines()[-1]
    _expect(f"pip install 'whence[{extra}]'" in last, place, f"without {extra} it says {said!r}")
    return f"without {extra}: {last}"


def _expect(held: bool, place: Place, otherwise: str) -> None:
    if not held:
        raise Wrong(f"[{place.extra}] {otherwise}")


def _measure_size(python: str) -> str:
    files = (
        path
        for path in Path(python).parents[1].rglob("*")
        if path.is_file() and not path.is_symlink()
    )
    return f"{sum(path.stat().st_size for path in files) / 2**20:.0f} MiB"


if __name__ == "__main__":
    sys.exit(main())
