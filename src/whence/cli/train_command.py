"""`whence train-attention`: a model of Jain & Wallace, trained on a data set of one's own."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.evaluate import PairColumn, TextColumn
from whence.cli.progress import working
from whence.report.text import visible

if TYPE_CHECKING:
    from whence.training import Epoch, Performance, Trained


def train_attention(
    data: Annotated[
        str,
        typer.Argument(
            help="The examples to train on: a .jsonl, .csv, .tsv or .parquet file, also as .gz, or a Hugging Face "
            "data set or a folder of data files: NAME:SPLIT.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the model goes: a new or an empty folder.")
    ],
    encoder: Annotated[
        str,
        typer.Option(help="What reads the words: bilstm (or lstm), cnn, or average (no context)."),
    ] = "bilstm",
    attention: Annotated[
        str,
        typer.Option(
            help="How words are weighed: tanh (or additive), dot (or scaled-dot), or uniform (all alike)."
        ),
    ] = "tanh",
    dev: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help="Examples to choose the best epoch by; else 15 % of those given."
        ),
    ] = None,
    test: Annotated[
        str | None, typer.Option(metavar="DATA", help="Examples to judge the model on at the end.")
    ] = None,
    text: TextColumn = None,
    pair: PairColumn = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of the labels.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="By default 8; 25 for pairs of texts.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="By default 32; 128 for pairs of texts.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="By default 0.001.")] = None,
    hidden_size: Annotated[
        int, typer.Option(min=1, metavar="N", help="Features of the encoder, in each direction.")
    ] = 128,
    embedding_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Features of a word; 300, or those of --vectors."),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Word vectors to start from: a text file (GloVe, fastText), or a model whose table to take.",
        ),
    ] = None,
    min_df: Annotated[
        int, typer.Option(min=1, metavar="N", help="A word must occur in so many texts.")
    ] = 1,
    min_length: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only texts of more words than this.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only texts of fewer words than this.")
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Read all words in lower case.")
    ] = False,
    answers_in_passage: Annotated[
        bool,
        typer.Option(
            "--answers-in-passage",
            help="Labels are words, and only those of the first text can be right.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Other first weights, another order.")] = 0,
    device: asking.Device = None,
    as_json: asking.AsJson = False,
) -> None:
    """Train a classifier with attention, as Jain & Wallace did, and save it for whence to load.

    It is resumable: after an interruption the same command goes on where it was, and ends with the same model.

    Examples:

        whence train-attention train.tsv --dev dev.tsv --test test.tsv --out sst-bilstm

        whence train-attention nli.jsonl --text premise --pair hypothesis --encoder cnn --attention dot --out nli-cnn

        whence audit test.tsv --model sst-bilstm
    """
    with working("reading the examples", "training") as (console, report):
        with importing():
            from whence.training import train_attention as train

        def tell(line: str) -> None:
            if not as_json:
                console.print(visible(line), style="dim", highlight=False, markup=False)

        def say(epoch: "Epoch") -> None:
            if console.is_terminal:
                tell(_line(epoch))

        try:
            trained = train(
                data,
                out=out,
                dev=dev,
                test=test,
                encoder=encoder,
                attention=attention,
                text=text,
                pair=pair,
                label=label,
                embedding_size=embedding_size,
                hidden_size=hidden_size,
                vectors=vectors,
                min_df=min_df,
                min_length=min_length,
                max_length=max_length,
                lowercase=lowercase,
                answers_in_passage=answers_in_passage,
                epochs=epochs,
                batch_size=batch_size,
                learning_rate=learning_rate,
                seed=seed,
                device=device,
                progress=report,
                each=say,
                announce=tell,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; the epochs that were done are kept, and the same command goes on from there."
            ) from None
    if as_json:
        asking.print_json(trained.to_dict())
        return
    columns = {"--text": text, "--pair": pair, "--label": label}
    named = [word for option, name in columns.items() if name for word in (option, name)]
    _show(trained, test or dev, named)


def _line(epoch: "Epoch") -> str:
    """Say how an epoch went."""
    found = epoch.dev
    judged = "" if found is None else f", dev {_figures(found)}"
    return f"epoch {epoch.number}: loss {epoch.loss:.4f}{judged} ({epoch.seconds:.0f} s)"


def _figures(found: "Performance") -> str:
    area = "" if found.roc_auc is None else f", ROC-AUC {found.roc_auc:.3f}"
    return f"accuracy {found.accuracy:.3f}, F1 {found.f1:.3f}{area}"


def _show(trained: "Trained", unseen: str | None, columns: list[str]) -> None:
    """Say what was trained, and the commands to go on with: on examples that it was not trained on."""
    from rich.console import Console
    from rich.table import Table

    config, sizes = trained.loaded.model.config, trained.sizes
    facts: list[tuple[str, Any]] = [
        ("model", f"{config.encoder} encoder, {config.attention} attention"),
        ("labels", visible(", ".join(trained.labels))),
        ("trained on", f"{sizes['train']} examples, {sizes['vocabulary']} words"),
        ("best epoch", f"{trained.best_epoch} of {len(trained.history)}"),
        ("dev", f"{_figures(trained.dev)} (n = {trained.dev.n})"),
    ]
    if trained.test is not None:
        facts.append(("test", f"{_figures(trained.test)} (n = {trained.test.n})"))
    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        table.add_row(name, value)
    console = Console(highlight=False, markup=False)
    console.print(table)
    model = ["--model", str(trained.folder)]
    pair = ["--pair", "another"] if config.query else []
    explain = ["whence", "explain", "a text", *pair, *model, "--method", "grad_x_input"]
    audit = ["whence", "audit", unseen or "DATA", *model, *columns]
    where = "" if unseen else " (DATA: examples that it was not trained on)"
    for line, command in (
        (f"Saved in {trained.folder}. Why does it say what it says?", explain),
        (f"May its attention be read as an explanation{where}?", audit),
    ):
        console.print(f"\n{visible(line)}\n", soft_wrap=True)
        console.print(f"    {visible(shlex.join(command))}", soft_wrap=True)
