"""The command `whence train-attention`: training and saving of a Jain & Wallace classifier; performance."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.cli import options
from whence.cli.options import DATA, MODEL, OUTPUT, option
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.render.text import sanitise_text

if TYPE_CHECKING:
    from whence.studies.training.train import TrainingResult

TRAINING = "Training"


@dataclass
class TrainingOptions:
    """What is trained, on which of the examples, and where it goes."""

    out: Path = option(
        OUTPUT, "Where the model goes: a new or an empty folder.", metavar="FOLDER", default=...
    )
    dev: str | None = option(
        DATA, "Examples to choose the best epoch by; else 15 % of those given.", metavar="DATA"
    )
    test: str | None = option(DATA, "Examples to judge the model on at the end.", metavar="DATA")
    min_length: int | None = option(DATA, "Only texts of more words than this.", metavar="N", min=0)
    max_length: int | None = option(
        DATA, "Only texts of fewer words than this.", metavar="N", min=1
    )
    answers_in_passage: bool = option(
        DATA,
        "Labels are words, and only those of the first text can be right.",
        "--answers-in-passage",
        default=False,
    )
    encoder: str = option(
        MODEL,
        "What reads the words: bilstm (or lstm), cnn, or average (no context).",
        default="bilstm",
    )
    attention: str = option(
        MODEL,
        "How words are weighed: tanh (or additive), dot (or scaled-dot), or uniform (all alike).",
        default="tanh",
    )
    hidden_size: int = option(
        MODEL, "Features of the encoder, in each direction.", metavar="N", min=1, default=128
    )
    embedding_size: int | None = option(
        MODEL, "Features of a word; 300, or those of --vectors.", metavar="N", min=1
    )
    vectors: str | None = option(
        MODEL,
        "Word vectors to start from: a text file (GloVe, fastText), or a model whose table to take.",
        metavar="SOURCE",
    )
    min_df: int = option(
        MODEL, "A word must occur in so many texts.", metavar="N", min=1, default=1
    )
    lowercase: bool = option(MODEL, "Read all words in lower case.", "--lowercase", default=False)
    epochs: int | None = option(
        TRAINING, "By default 8; 25 for pairs of texts.", metavar="N", min=1
    )
    batch_size: int | None = option(
        TRAINING, "By default 32; 128 for pairs of texts.", metavar="N", min=1
    )
    learning_rate: float | None = option(TRAINING, "By default 0.001.")
    seed: int = option(TRAINING, "Other first weights, another order.", min=0, default=0)
    device: options.Device = None


def train_attention(
    data: options.DataArgument,
    training: TrainingOptions,
    as_json: options.AsJson = False,
) -> None:
    """Train a classifier with attention, as Jain & Wallace did, and save it for whence to load.

    It is resumable: after an interruption the same command goes on where it was, and ends with the same model.

    Examples:

        whence train-attention train.tsv --dev dev.tsv --test test.tsv --out sst-bilstm

        whence train-attention nli.jsonl --text premise --pair hypothesis --encoder cnn --attention dot --out nli-cnn

        whence audit test.tsv --model sst-bilstm
    """
    with show_progress("reading the examples", "training", quiet=as_json) as (_, report):
        with pause_garbage_collection():
            from whence.studies.training.train import train_attention as train

        columns: dict[str, Any] = {"text": data.text, "pair": data.pair, "label": data.label}
        try:
            trained = train(
                data.data,
                **columns,
                **vars(training),
                progress=report,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; the epochs that were done are kept, and the same command goes on from there."
            ) from None
    if as_json:
        options.print_json(trained.to_dict())
        return
    named = [word for column, name in columns.items() if name for word in (f"--{column}", name)]
    _print_training(trained, training.test or training.dev, named)


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
