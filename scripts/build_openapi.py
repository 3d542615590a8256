"""Writer of web/openapi.json, the server's API schema; the page's types are generated from it.

With --check nothing is written, and the status is 1 if the file is not what the code says.
"""

import json
import sys
from pathlib import Path

from whence.app.server import build_api as application

FILE = Path(__file__).parents[1] / "web" / "openapi.json"


def describe_api() -> str:
    """Return the schema as text, the same for the same code."""
    description = application().openapi()
    description["info"]["version"] = "0"  # a release changes no shape
    return json.dumps(description, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> int:
    """Write the file, or compare it with the schema of today."""
    text = describe_api()
    if "--check" not in sys.argv[1:]:
        FILE.write_text(text, encoding="utf-8")
        return 0
    if FILE.is_file() and FILE.read_text(encoding="utf-8") == text:
        return 0
    print("web/openapi.json is not what the code says: run scripts/build_openapi.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
