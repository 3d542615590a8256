"""Start-up time of the command, and the share of importing torch and transformers.

python bench/cold_start.py [--repeats N]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from explain import collect_provenance

COMMANDS = {
    "import torch": ["-c", "import torch"],
    "import torch and transformers' BERT": [
        "-c",
        "import torch; from transformers.models.bert.modeling_bert import BertModel",
    ],
    "whence --version": ["-m", "whence", "--version"],
    "whence explain TEXT": ["-m", "whence", "explain", "a gripping, beautifully acted film"],
}


def measure_seconds(arguments: list[str]) -> float:
    """Run a fresh Python and return the time until its first byte of output, or its end."""
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        return time.perf_counter() - started


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also append the rows to this file")
    options = parser.parse_args()
    seen: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.repeats):
        for name, arguments in COMMANDS.items():
            seen[name].append(measure_seconds(arguments))
    print(f"{'until the first output':40} {'median s':>9} {'best s':>7}")
    for name, values in seen.items():
        print(f"{name:40} {statistics.median(values):9.2f} {min(values):7.2f}")
        if options.json:
            row = {
                **collect_provenance(os.cpu_count() or 1),
                "what": name,
                "median": statistics.median(values),
                "best": min(values),
            }
            with options.json.open("a") as stream:
                stream.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
