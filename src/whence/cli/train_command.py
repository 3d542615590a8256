"""The command `whence train-attention`: training and saving of a Jain & Wallace classifier; performance."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli import options
from whence.cli.evaluate_command import PairColumn, TextColumn
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.render.text import sanitise_text

if TYPE_CHECKING:
    from whence.studies.training.fit import Epoch
    from whence.studies.training.train import TrainingResult


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
    device: options.Device = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a classifier with attention, as Jain & Wallace did, and save it for whence to load.

    It is resumable: after an interruption the same command goes on where it was, and ends with the same model.

    Examples:

        whence train-attention train.tsv --dev dev.tsv --test test.tsv --out sst-bilstm

        whence train-attention nli.jsonl --text premise --pair hypothesis --encoder cnn --attention dot --out nli-cnn

        whence audit test.tsv --model sst-bilstm
    """
    with show_progress("reading the examples", "training") as (console, report):
        with pause_garbage_collection():
            from whence.studies.training.train import train_attention as train

        def print_line(line: str) -> None:
            if not as_json:
                console.print(sanitise_text(line), style="dim", highlight=False, markup=False)

        def print_epoch(epoch: "Epoch") -> None:
            if console.is_terminal:
                print_line(_format_epoch(epoch))

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
                each=print_epoch,
                announce=print_line,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; the epochs that were done are kept, and the same command goes on from there."
            ) from None
    if as_json:
        options.print_json(trained.to_dict())
        return
    columns = {"--text": text, "--pair": pair, "--label": label}
    named = [word for option, name in columns.items() if name for word in (option, name)]
    _print_training(trained, test or dev, named)


def _format_epoch(epoch: "Epoch") -> str:
    """Return a line on an epoch: loss, performance on dev, seconds."""
    performance = epoch.dev
    dev_text = "" if performance is None else f", dev {performance}"
    return f"epoch {epoch.number}: loss {epoch.loss:.4f}{dev_text} ({epoch.seconds:.0f} s)"


def _print_training(trained: "TrainingResult", unseen: str | None, columns: list[str]) -> None:
    """Print the trained model's facts and the next commands, on examples it was not trained on."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    console.print(trained)
    model = ["--model", str(trained.folder)]
    pair = ["--pair", "another"] if trained.data["model"]["query"] else []
    explain = ["whence", "explain", "a text", *pair, *model, "--method", "grad_x_input"]
    audit = ["whence", "audit", unseen or "DATA", *model, *columns]
    where = "" if unseen else " (DATA: examples that it was not trained on)"
    for line, command in (
        (f"Saved in {trained.folder}. Why does it say what it says?", explain),
        (f"May its attention be read as an explanation{where}?", audit),
    ):
        console.print(f"\n{sanitise_text(line)}\n", soft_wrap=True)
        console.print(f"    {sanitise_text(shlex.join(command))}", soft_wrap=True)
