"""Run the notebooks of notebooks/, keep what they print, and make a page of the site of each.

    python scripts/notebooks.py            run all of them, and write them with their outputs
    python scripts/notebooks.py tour       one of them
    python scripts/notebooks.py --check    run nothing: are they written as this would write them?

A notebook is written so that a diff shows what changed and nothing else: cells count from 1, metadata is the same for
all, and neither widgets nor times are kept. `make docs` makes the pages, from what is stored.
"""

import base64
import json
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
# In the order of the list, with what each is about.
ORDER = {
    "tour": "explain a prediction, test the explanation, and see a case where the truth is known",
    "audit": "may attention be read as an explanation here, and what to use instead",
    "fine-tuning": "which heads and layers changed, and where information flows now",
    "images": "maps over a picture whose truth is known, and how to test them",
}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SECONDS = 300  # for a cell, on a busy machine
STYLE = re.compile(r"<style>(.*?)</style>", re.S)
KEPT = ("text/plain", "text/html", "image/png")
# What an explanation's page says about the moment it was made: how long it took, and with which versions.
PASSING = re.compile(
    r", [\d.]+ s(?=</p>)|<details><summary>Where this comes from</summary>.*?</details>", re.S
)

Notebook = dict[str, Any]


def read(name: str) -> Notebook:
    """Return a notebook as it is stored."""
    found: Notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return found


def written(notebook: Notebook) -> str:
    """Return the text of a notebook's file."""
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def executed(name: str) -> Notebook:
    """Run a notebook from first to last, in a kernel and a folder of its own; an error in a cell raises."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(written(read(name)), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    return normalised(json.loads(nbformat.writes(notebook)), name)


def normalised(notebook: Notebook, name: str) -> Notebook:
    """Return a notebook without what differs from one run to the next."""
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"], 1):
        clean = {
            "cell_type": cell["cell_type"],
            "id": f"{name}-{number}",
            "metadata": {},
            "source": _lines(cell["source"]),
        }
        if cell["cell_type"] == "code":
            count += 1
            outputs = [_output(one, count) for one in _joined(cell["outputs"])]
            clean = {**clean, "execution_count": count, "outputs": outputs}
        cells.append(clean)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def text(value: str | list[str]) -> str:
    """Return a text that a notebook stores as lines or in one piece."""
    return value if isinstance(value, str) else "".join(value)


def _lines(value: str | list[str]) -> list[str]:
    return text(value).splitlines(keepends=True)


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put together what a kernel sent in several pieces: how it is cut is a matter of time."""
    found: list[dict[str, Any]] = []
    for one in outputs:
        last = found[-1] if found else {}
        if (
            one["output_type"] == last.get("output_type") == "stream"
            and one["name"] == last["name"]
        ):
            found[-1] = {**last, "text": text(last["text"]) + text(one["text"])}
        else:
            found.append(one)
    return found


def _output(one: dict[str, Any], count: int) -> dict[str, Any]:
    if one["output_type"] == "stream":
        return {"name": one["name"], "output_type": "stream", "text": _lines(one["text"])}
    if one["output_type"] == "error":
        raise SystemExit(f"a cell failed: {one['ename']}: {one['evalue']}")
    data = {
        kind: value if kind == "image/png" else _lines(PASSING.sub("", text(value)))
        for kind, value in sorted(one["data"].items())
        if kind in KEPT
    }
    made = {"data": data, "metadata": {}, "output_type": one["output_type"]}
    if one["output_type"] == "execute_result":
        made["execution_count"] = count
    return made


# --- pages --------------------------------------------------------------------------------------


def page(name: str) -> str:
    """Return a notebook as a page of the site."""
    notebook = read(name)
    parts = []
    for cell in notebook["cells"]:
        source = text(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", source))
            continue
        parts.append(f"```python\n{source}\n```")
        parts += filter(None, map(_shown, cell["outputs"]))
    parts.insert(
        1,
        f"*A notebook: [notebooks/{name}.ipynb](../../notebooks/{name}.ipynb), run by the tests.*",
    )
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """Return what a cell gave, as Markdown: the page of an explanation as it is, anything else as text."""
    data = output.get("data", {})
    if "text/html" in data:
        # GitHub would show a style sheet as text, and a blank line would end the piece of HTML within Markdown.
        return re.sub(r"\n\s*\n", "\n", STYLE.sub("", text(data["text/html"]))).strip()
    if "image/png" in data:
        picture = base64.b64encode(base64.b64decode(text(data["image/png"]))).decode()
        return f'<img alt="what the cell shows" src="data:image/png;base64,{picture}">'
    plain = text(output["text"] if output["output_type"] == "stream" else data["text/plain"])
    return f"```text\n{plain.rstrip()}\n```"


def contents() -> str:
    """Return the page that lists the notebooks."""
    lines = [
        "# Notebooks",
        "",
        "Short, with their outputs, on the models that come with whence.",
        "",
    ]
    for name, about in ORDER.items():
        title = text(read(name)["cells"][0]["source"]).partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({name}.md): {about}")
    lines += [
        "",
        "To run them: `pip install 'whence[notebook]' jupyterlab`, and open the folder `notebooks`.",
    ]
    return "\n".join(lines) + "\n"


def sheet() -> str:
    """Return the style sheet of explanations, which pages have from the site and notebooks within them."""
    shown = (text(data["text/html"]) for data in _html())
    (one,) = {match[1].strip() for html in shown for match in STYLE.finditer(html)}
    return one + "\n"


def _html() -> list[dict[str, Any]]:
    cells = [cell for name in ORDER for cell in read(name)["cells"]]
    found = [one.get("data", {}) for cell in cells for one in cell.get("outputs", ())]
    return [data for data in found if "text/html" in data]


# For scripts/build_docs.py.
PAGES: dict[str, Callable[[], str | None]] = {
    "notebooks/README.md": contents,
    "style/explanation.css": sheet,
    **{f"notebooks/{name}.md": partial(page, name) for name in ORDER},
}


def main() -> None:
    """Run notebooks and write them, or check how they are written."""
    asked = [one for one in sys.argv[1:] if not one.startswith("-")] or list(ORDER)
    for name in asked:
        if "--check" in sys.argv[1:]:
            if written(normalised(read(name), name)) != written(read(name)):
                raise SystemExit(
                    f"notebooks/{name}.ipynb: run `python scripts/notebooks.py {name}`"
                )
            continue
        path = NOTEBOOKS / f"{name}.ipynb"
        path.write_text(written(executed(name)), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
