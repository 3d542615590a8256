"""Settings of a server: models, data, results, runs, address, token, limits and sample texts."""

from dataclasses import dataclass, field
from pathlib import Path

from whence.app.access_token import make_token
from whence.app.schema import EDGES, TEXT, TOKENS

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
MEGABYTE = 1_000_000

# Sample texts: one with a contrast, a clear one, one with a negation, one near a tie.
TEXT_SAMPLES = (
    "the plot is thin, but the actors are wonderful",
    "a gripping, beautifully acted film",
    "not a bad film at all",
    "it has a few good moments and a great many dull ones",
)
# Samples for other tasks than classification; [MASK] stands for the model's own mask token.
TASK_SAMPLES: tuple[tuple[str, str, str | None], ...] = (
    ("answer", "Who wrote the music?", "The film was shot in Rome. Nino Rota wrote the music."),
    ("answer", "Where was it shot?", "The film was shot in Rome. Nino Rota wrote the music."),
    ("tags", "Nino Rota wrote the music in Rome for Federico Fellini.", None),
    ("mask", "the plot is thin, but the actors are [MASK].", None),
    ("mask", "a [MASK] film with a [MASK] ending", None),
    ("next", "Once upon a time, there was a little girl named", None),
    ("next", "The dog was sad. The cat was happy. The dog wanted to", None),
    ("sequence", "translate English to German: The house is wonderful.", None),
)
# Samples for classifiers of pairs: premise and hypothesis, or two texts that may be paraphrases.
PAIR_SAMPLES = (
    ("A man plays the guitar on a stage.", "Somebody is making music."),
    ("A man plays the guitar on a stage.", "The stage is empty."),
)


@dataclass(frozen=True)
class Settings:
    """The models, data, results and runs of a server, its address, token and limits."""

    models: tuple[str, ...] = ("reviews",)
    compare: tuple[str, str] | None = None
    data: tuple[Path, ...] = ()
    text: str | None = None  # columns of the data sets
    pair: str | None = None
    label: str | None = None
    results: tuple[Path, ...] = ()
    runs: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    token: str = field(default_factory=make_token, repr=False)  # required of every client
    allow_load: bool = False
    device: str | None = None
    dtype: str | None = None
    samples: tuple[str, ...] = TEXT_SAMPLES
    seconds: float = 120  # limit of a quick request, waiting included
    body: int = 1 * MEGABYTE
    upload: int = 32 * MEGABYTE
    rows: int = 1_000_000  # limit of an uploaded data set; ten times as many cells
    cache: int = 512 * MEGABYTE  # bytes of cached inspected inputs, per model
    waiting: int = 64  # requests and jobs queued for one model at most
    kept: int = 64  # ended jobs, uploaded data sets and uploaded results

    def describe_limits(self) -> dict[str, int]:
        """Return the limits on the size of requests, as the page takes them."""
        return {
            "characters": TEXT,
            "upload": self.upload,
            "seconds": round(self.seconds),
            "edges": EDGES,
            "generated": TOKENS,
        }
