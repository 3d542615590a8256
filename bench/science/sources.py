"""Fixed text of docs/science/README.md (intro, certainty, limits), and its table of results' provenance."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.science.rows import Facts

INTRO = """# What we found

Which method is faithful, where, and how sure we are. The sentences and tables of this page are made by rule from
the files in `bench/results` (`bench/science/findings.py`); nobody typed a figure. An explanation is *faithful* if
the prediction falls when what it points at is taken away (comprehensiveness; deletion, where less is better), and
stays when only that is kept (sufficiency, insertion). Three models: MiniLM on sentences (SST-2) and on long
reviews (Movies), a small ViT on photographs of cats and dogs. And eight tiny models whose weights were set by
hand, so that the right answer is known ([truth](truth.md)).
"""
SURE = """## How sure we are

Every comparison is paired, example by example: sign-flip tests against random rankings and between each two
methods, corrected by Holm for all comparisons of a metric; intervals are bootstraps over examples. So what is
bold or marked ° is about *these models and these data*, and holds there. Methods that ask the model thousands of
times were given fewer examples, which n says: for them less can be told, in both directions. The truth models are
counts of sentences, not a sample of anything. Results were made with different versions of the code, which the
last table of this page names.
"""
CANNOT = """## What we cannot say

- **Small models, few tasks.** Three trained models, two of them brothers, two classes each. Nothing here is about
  large language models, and the methods that lead here were not tried on them.
- **Removal is no neutral judge.** A text with holes is one that the model was never trained on; some of a fall is
  surprise. `kernel_shap` and `lime` are fitted to what the model says of such texts: deletion measures what they
  optimise, and on texts of hundreds of tokens their budget of samples no longer suffices.
- **Human agreement is not truth**, and truth in models of a few dozen words is not truth in yours.
- **Settings.** Where authors have settings of their own, [Movies](eraser.md), [AttCAT's protocol](attcat.md) and
  [the photographs](pets.md) use them; the [full tables](evaluation.md) have our defaults.
- **Choices made after seeing results.** The cut [collages](pets.md) replaced squeezed ones after both were seen;
  both are shown. How many examples the dear methods have was decided by the time that was left. The columns of the
  table above, how strong a correlation must be to be called one, and how many examples a method must have to be bold
  (a half was tried first, which left out `lime` on photographs; now a third) were chosen after these results had
  been seen. Other metrics give other orders, and the pages below have them all.
- **One column is older.** The figures of SST-2 were made with earlier code than the others; its tests are of the
  same definitions.
"""
PAGES = """Each command writes its file and its page; `make science` runs all of them. They want a GPU, but for
truth and shapes; the longer ones go on where they stopped, and take `--limit 2` to be tried.
"""
# Page, command, file, where its evaluation is.
RESULTS = (
    ("evaluation", "bench.science.evaluation sst2", "table-sst2.json", ()),
    ("evaluation", "bench.science.evaluation movies", "table-movies.json", ()),
    ("attcat", "bench.science.attcat sst2", "attcat-sst2.json", ("delete",)),
    ("attcat", "bench.science.attcat movies", "attcat-movies.json", ("delete",)),
    ("eraser", "bench.science.eraser", "eraser-movies.json", ()),
    ("pets", "bench.science.pets", "pets.json", ("predicted",)),
    ("truth", "bench.science.truth", "truth.json", ()),
    ("shapes", "bench.science.shapes", "shapes.json", ()),
    ("compare", "bench.science.compare", "compare-sst2.json", ()),
    ("transformers", "bench.science.transformers", "audit-sst2.json", ()),
    ("tasks", "bench.science.tasks", "tasks.json", ()),
    ("jain_wallace", "bench.science.jain_wallace.run", "jain_wallace/sst.json", ()),
)
TITLES = {
    "evaluation": "[every method by every metric](evaluation.md)",
    "attcat": "[AttCAT's protocol](attcat.md)",
    "eraser": "[human rationales](eraser.md)",
    "pets": "[cats and dogs](pets.md)",
    "truth": "[which method recovers the truth](truth.md)",
    "shapes": "[drawn shapes](shapes.md)",
    "compare": "[what fine-tuning changed](compare.md)",
    "transformers": "[attention in Transformers](transformers.md)",
    "tasks": "[pairs and answers](tasks.md)",
    "jain_wallace": "[Jain & Wallace's table](jain_wallace.md)",
}


def iterate_sources(folder: Path) -> Iterator[Sequence[str]]:
    """Yield a row for each result: page, command, number of examples and provenance."""
    for page, command, name, path in RESULTS:
        file = folder / name
        if not file.is_file():
            continue
        whole = json.loads(file.read_text("utf-8"))
        found = whole
        for part in path:
            found = found[part]
        yield [
            TITLES[page],
            f"`python -m {command}`",
            _format_count(whole, found),
            _format_provenance(whole, found),
        ]


def _format_count(whole: Facts, found: Facts) -> str:
    if "parts" in found:
        return ", ".join(str(part["examples"]) for part in found["parts"])
    if "examples" in found and "explained" in found["examples"]:
        return str(found["examples"]["explained"])
    if "used" in whole.get("data", {}):
        return str(whole["data"]["used"])
    return "see there"


def _format_provenance(whole: Facts, found: Facts) -> str:
    how = found.get("provenance") or whole.get("provenance")
    if not how:
        return "see there"
    names = ("commit", "source", "torch", "machine", "day")
    return ", ".join(
        f"{name} {how[name]}" if name in names[:3] else how[name] for name in names if how.get(name)
    )
