"""Runner of notebooks/: executes them, stores their outputs, and renders each as a page of the site.

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
# Parts of an explanation's page that differ from run to run: duration and versions.
PASSING = re.compile(
    r", [\d.]+ s(?=</p>)|<details><summary>Where this comes from</summary>.*?</details>", re.S
)

Notebook = dict[str, Any]


def read_notebook(name: str) -> Notebook:
    """Return a notebook as it is stored."""
    found: Notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return found


def format_notebook(notebook: Notebook) -> str:
    """Return the text of a notebook's file."""
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def execute_notebook(name: str) -> Notebook:
    """Run a notebook from first to last, in a kernel and a folder of its own; an error in a cell raises."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(format_notebook(read_notebook(name)), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    return normalise_notebook(json.loads(nbformat.writes(notebook)), name)


def normalise_notebook(notebook: Notebook, name: str) -> Notebook:
    """Return a notebook without the values that differ from run to run."""
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"], 1):
        clean = {
            "cell_type": cell["cell_type"],
            "id": f"{name}-{number}",
            "metadata": {},
            "source": _split_lines(cell["source"]),
        }
        if cell["cell_type"] == "code":
            count += 1
            outputs = [_normalise_output(one, count) for one in _join_streams(cell["outputs"])]
            clean = {**clean, "execution_count": count, "outputs": outputs}
        cells.append(clean)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def join_text(value: str | list[str]) -> str:
    """Return a text that a notebook stores as lines or in one piece."""
    return value if isinstance(value, str) else "".join(value)


def _split_lines(value: str | list[str]) -> list[str]:
    return join_text(value).splitlines(keepends=True)


def _join_streams(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join stream outputs that a kernel sent in pieces; how they are cut depends on timing."""
    found: list[dict[str, Any]] = []
    for one in outputs:
        last = found[-1] if found else {}
        if (
            one["output_type"] == last.get("output_type") == "stream"
            and one["name"] == last["name"]
        ):
            found[-1] = {**last, "text": join_text(last["text"]) + join_text(one["text"])}
        else:
            found.append(one)
    return found


def _normalise_output(one: dict[str, Any], count: int) -> dict[str, Any]:
    if one["output_type"] == "stream":
        return {"name": one["name"], "output_type": "stream", "text": _split_lines(one["text"])}
    if one["output_type"] == "error":
        raise SystemExit(f"a cell failed: {one['ename']}: {one['evalue']}")
    data = {
        kind: value if kind == "image/png" else _split_lines(PASSING.sub("", join_text(value)))
        for kind, value in sorted(one["data"].items())
        if kind in KEPT
    }
    made = {"data": data, "metadata": {}, "output_type": one["output_type"]}
    if one["output_type"] == "execute_result":
        made["execution_count"] = count
    return made


# --- pages --------------------------------------------------------------------------------------


def render_page(name: str) -> str:
    """Return a notebook as a page of the site."""
    notebook = read_notebook(name)
    parts = []
    for cell in notebook["cells"]:
        source = join_text(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", source))
            continue
        parts.append(f"```python\n{source}\n```")
        parts += filter(None, map(_render_output, cell["outputs"]))
    parts.insert(
        1,
        f"*A notebook: [notebooks/{name}.ipynb](../../notebooks/{name}.ipynb), run by the tests.*",
    )
    return "\n\n".join(parts) + "\n"


def _render_output(output: dict[str, Any]) -> str:
    """Return a cell's output as Markdown: explanations as HTML, anything else as text."""
    data = output.get("data", {})
    if "text/html" in data:
        # GitHub would show a style sheet as text, and a blank line would end the piece of HTML within Markdown.
        return re.sub(r"\n\s*\n", "\n", STYLE.sub("", join_text(data["text/html"]))).strip()
    if "image/png" in data:
        picture = base64.b64encode(base64.b64decode(join_text(data["image/png"]))).decode()
        return f'<img alt="what the cell shows" src="data:image/png;base64,{picture}">'
    plain = join_text(output["text"] if output["output_type"] == "stream" else data["text/plain"])
    return f"```text\n{plain.rstrip()}\n```"


def render_contents() -> str:
    """Return the page that lists the notebooks."""
    lines = [
        "# Notebooks",
        "",
        "Short, with their outputs, on the models that come with whence.",
        "",
    ]
    for name, about in ORDER.items():
        title = (
            join_text(read_notebook(name)["cells"][0]["source"])
            .partition("\n")[0]
            .removeprefix("# ")
        )
        lines.append(f"- [{title}]({name}.md): {about}")
    lines += [
        "",
        "To run them: `pip install 'whence[notebook]' jupyterlab`, and open the folder `notebooks`.",
    ]
    return "\n".join(lines) + "\n"


def render_style_sheet() -> str:
    """Return the style sheet of explanations; pages link to it, notebooks carry it."""
    shown = (join_text(data["text/html"]) for data in _list_html_outputs())
    (one,) = {match[1].strip() for html in shown for match in STYLE.finditer(html)}
    return one + "\n"


def _list_html_outputs() -> list[dict[str, Any]]:
    cells = [cell for name in ORDER for cell in read_notebook(name)["cells"]]
    found = [one.get("data", {}) for cell in cells for one in cell.get("outputs", ())]
    return [data for data in found if "text/html" in data]


# For scripts/build_docs.py.
PAGES: dict[str, Callable[[], str | None]] = {
    "notebooks/README.md": render_contents,
    "style/explanation.css": render_style_sheet,
    **{f"notebooks/{name}.md": partial(render_page, name) for name in ORDER},
}


def main() -> None:
    """Run notebooks and write them, or check how they are written."""
    asked = [one for one in sys.argv[1:] if not one.startswith("-")] or list(ORDER)
    for name in asked:
        if "--check" in sys.argv[1:]:
            if format_notebook(normalise_notebook(read_notebook(name), name)) != format_notebook(
                read_notebook(name)
            ):
                raise SystemExit(
                    f"notebooks/{name}.ipynb: run `python scripts/notebooks.py {name}`"
                )
            continue
        path = NOTEBOOKS / f"{name}.ipynb"
        path.write_text(format_notebook(execute_notebook(name)), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
