"""Check that the committed page and API types are the build of their sources."""

import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB, STATIC = ROOT / "web", ROOT / "src" / "whence" / "app" / "static"
TYPES = WEB / "src" / "api" / "schema.gen.ts"


def main() -> int:
    """Build into an empty folder and compare byte by byte; print differences and the remedy."""
    with tempfile.TemporaryDirectory(prefix="whence-bundle-") as made:
        built = Path(made) / "static"
        for mode in ("production", "embed"):
            _run_npx("vite", "build", "--mode", mode, "--logLevel", "error", "--outDir", str(built))
        types = Path(made) / "schema.gen.ts"
        _run_npx("openapi-typescript", "openapi.json", "--output", str(types))
        wrong = _list_differences(built, STATIC)
        if types.read_bytes() != TYPES.read_bytes():
            wrong.append(str(TYPES.relative_to(ROOT)))
    if wrong:
        print(
            f"not the build of the source: {', '.join(wrong)}. Run `make bundle` and commit.",
            file=sys.stderr,
        )
        return 1
    print(f"{len(list(STATIC.iterdir()))} files of the page are the build of its source")
    return 0


def _run_npx(*command: str) -> None:
    done = subprocess.run(
        ["npx", "--no-install", *command], cwd=WEB, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _list_differences(built: Path, committed: Path) -> list[str]:
    names = {path.name for folder in (built, committed) for path in folder.iterdir()}
    _, mismatch, missing = filecmp.cmpfiles(built, committed, names, shallow=False)
    return [f"{committed.name}/{name}" for name in sorted([*mismatch, *missing])]


if __name__ == "__main__":
    sys.exit(main())
