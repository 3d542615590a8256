"""What a server was started with."""

from dataclasses import dataclass, field
from pathlib import Path

from whence.web.schema.base import TEXT
from whence.web.schema.generate import TOKENS
from whence.web.tokens import make_token

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MEGABYTE = 1_000_000

# Texts to begin with: an easy one, one with a turn, one with a negation, one that is close.
SAMPLES = (
    "the plot is thin, but the actors are wonderful",
    "a gripping, beautifully acted film",
    "not a bad film at all",
    "it has a few good moments and a great many dull ones",
)
# For models that do something else than to classify; [MASK] stands for the model's own mask.
OTHERS: tuple[tuple[str, str, str | None], ...] = (
    ("answer", "Who wrote the music?", "The film was shot in Rome. Nino Rota wrote the music."),
    ("answer", "Where was it shot?", "The film was shot in Rome. Nino Rota wrote the music."),
    ("tags", "Nino Rota wrote the music in Rome for Federico Fellini.", None),
    ("mask", "the plot is thin, but the actors are [MASK].", None),
    ("mask", "a [MASK] film with a [MASK] ending", None),
    ("next", "Once upon a time, there was a little girl named", None),
    ("next", "The dog was sad. The cat was happy. The dog wanted to", None),
    ("sequence", "translate English to German: The house is wonderful.", None),
)
# For classifiers of pairs: a premise and a hypothesis, or two texts that may say the same.
PAIRS = (
    ("A man plays the guitar on a stage.", "Somebody is making music."),
    ("A man plays the guitar on a stage.", "The stage is empty."),
)


@dataclass(frozen=True)
class Settings:
    """Models, data, results and runs to serve, who may ask, and how much."""

    models: tuple[str, ...] = ("reviews",)
    compare: tuple[str, str] | None = None
    data: tuple[Path, ...] = ()
    text: str | None = None  # the columns of these
    pair: str | None = None
    label: str | None = None
    results: tuple[Path, ...] = ()
    runs: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    token: str = field(default_factory=make_token, repr=False)  # asked of everybody
    allow_load: bool = False
    device: str | None = None
    dtype: str | None = None
    samples: tuple[str, ...] = SAMPLES
    seconds: float = 120  # that a quick question may take, waiting included
    characters: int = TEXT
    body: int = 1 * MEGABYTE
    upload: int = 32 * MEGABYTE
    rows: int = 1_000_000  # of a data set that is brought in, and ten times as many cells
    cache: int = 512 * MEGABYTE  # of what was seen inside the models, for each of them
    edges: int = 5000
    generated: int = TOKENS
    waiting: int = 64  # questions and jobs that may wait for one model
    kept: int = 64  # ended jobs, data sets and results that were brought in
