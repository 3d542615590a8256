"""Check that what the page's source builds to, and the types it is built with, are what is committed."""

import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB, STATIC = ROOT / "web", ROOT / "src" / "whence" / "web" / "static"
TYPES = WEB / "src" / "api" / "schema.gen.ts"


def main() -> int:
    """Build into an empty folder and compare byte by byte; say what differs, and how to mend it."""
    with tempfile.TemporaryDirectory(prefix="whence-bundle-") as made:
        built = Path(made) / "static"
        for mode in ("production", "embed"):
            _npx("vite", "build", "--mode", mode, "--logLevel", "error", "--outDir", str(built))
        types = Path(made) / "schema.gen.ts"
        _npx("openapi-typescript", "openapi.json", "--output", str(types))
        wrong = _different(built, STATIC)
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


def _npx(*command: str) -> None:
    done = subprocess.run(
        ["npx", "--no-install", *command], cwd=WEB, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _different(built: Path, committed: Path) -> list[str]:
    names = {path.name for folder in (built, committed) for path in folder.iterdir()}
    _, mismatch, missing = filecmp.cmpfiles(built, committed, names, shallow=False)
    return [f"{committed.name}/{name}" for name in sorted([*mismatch, *missing])]


if __name__ == "__main__":
    sys.exit(main())
