"""What a server was started with."""

from dataclasses import dataclass
from pathlib import Path

from whence.web.schema.common import TEXT

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MEGABYTE = 1_000_000

# Texts to begin with: an easy one, one with a turn, one with a negation, one that is close.
SAMPLES = (
    "the plot is thin, but the actors are wonderful",
    "a gripping, beautifully acted film",
    "not a bad film at all",
    "it has a few good moments and a great many dull ones",
)


@dataclass(frozen=True)
class Settings:
    """Models, data and results to serve, who may ask, and how much."""

    models: tuple[str, ...] = ("reviews",)
    compare: tuple[str, str] | None = None
    data: tuple[Path, ...] = ()
    results: tuple[Path, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None  # asked for where the server can be reached from other machines
    allow_load: bool = False
    device: str | None = None
    dtype: str | None = None
    samples: tuple[str, ...] = SAMPLES
    seconds: float = 120  # that a quick question may take, waiting included
    characters: int = TEXT
    body: int = 1 * MEGABYTE
    upload: int = 32 * MEGABYTE
    cache: int = 512 * MEGABYTE  # of what was seen inside the models, for each of them
    edges: int = 5000
    waiting: int = 64  # questions and jobs that may wait for one model
    kept: int = 64  # ended jobs, data sets and results that were brought in
