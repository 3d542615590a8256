"""Build of the wheel and the source distribution, and a check for missing and superfluous files."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "whence"
# Build outputs, environments and caches, which no distribution may hold.
LEFTOVERS = (
    "__pycache__",
    ".pyc",
    "node_modules",
    "/build/",
    "/dist/",
    ".venv",
    ".hypothesis",
    ".egg-info",
)
MOST_WHEEL, MOST_SDIST = 25 * 2**20, 40 * 2**20  # bytes; the built-in models are 18 MiB of each


def build(out: Path, *targets: str) -> list[Path]:
    """Build into a folder with the build backend that is installed here; no network is needed."""
    wanted = [argument for target in targets for argument in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *wanted]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the build failed:\n{done.stdout}{done.stderr}")
    return sorted(out.iterdir())


def list_tracked(folder: str = ".") -> list[str]:
    """Return the files under a folder as git knows them, new ones included; none where this is not a clone."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = [] if listed.returncode else listed.stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def list_package_files() -> set[str]:
    """Return the files of the package, by the names that they have in a wheel."""
    names = list_tracked("src/whence")
    # Without git, in an unpacked source distribution, all files of the folder count.
    names = names or [str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*") if path.is_file()]
    kept = [name for name in names if not any(left in f"/{name}" for left in LEFTOVERS)]
    return {name.removeprefix("src/") for name in kept}


def read_wheel(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel and their bytes."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def find_wheel_problems(wheel: Path, version: str) -> list[str]:
    """Compare a wheel with the package; return the problems, in sentences."""
    held, expected = read_wheel(wheel), list_package_files()
    info = f"whence-{version}.dist-info"
    about = {
        f"{info}/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    wrong = [f"the wheel lacks {name}" for name in sorted((expected | about) - set(held))]
    wrong += [f"the wheel should not hold {name}" for name in sorted(set(held) - expected - about)]
    wrong += _find_leftovers(held, "wheel")
    if f"\nVersion: {version}\n" not in held.get(f"{info}/METADATA", b"").decode():
        wrong.append(f"the wheel's metadata do not say version {version}")
    if wheel.stat().st_size > MOST_WHEEL:
        wrong.append(f"the wheel has {wheel.stat().st_size} bytes, more than {MOST_WHEEL}")
    return wrong


def find_sdist_problems(sdist: Path, version: str) -> list[str]:
    """Compare a source distribution with the tree; return missing and superfluous files."""
    with tarfile.open(sdist) as opened:
        names = {member.name.partition("/")[2] for member in opened if member.isfile()}
    expected = {f"src/{name}" for name in list_package_files()} | {*list_tracked()}
    wrong = [f"the source distribution lacks {name}" for name in sorted(expected - names)]
    wrong += _find_leftovers(names, "source distribution")
    if sdist.name != f"whence-{version}.tar.gz":
        wrong.append(f"{sdist.name} is not named for version {version}")
    if sdist.stat().st_size > MOST_SDIST:
        wrong.append(
            f"the source distribution has {sdist.stat().st_size} bytes, more than {MOST_SDIST}"
        )
    return wrong


def _find_leftovers(names: "set[str] | dict[str, bytes]", where: str) -> list[str]:
    return [
        f"the {where} holds a leftover: {name}"
        for name in sorted(names)
        if any(left in f"/{name}" for left in LEFTOVERS)
    ]
