"""From values to places on a drawing, and the round values to write there."""

from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True)
class Scale:
    """From values between `low` and `high` to places between `start` and `end`; what is beyond stays at the edge."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)


def bounds(values: list[float]) -> tuple[float, float]:
    """Return ends that leave some room beside the least and the greatest of the values."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.5 * abs(low) or 0.5
    return low - margin, high + margin


def ticks(low: float, high: float, about: int = 5) -> list[tuple[float, str]]:
    """Return round values between two others, about so many, each with what to write there."""
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= raw)
    decimals = max(0, ceil(-log10(step) - 1e-9))
    places = [step * i for i in range(ceil(low / step), floor(high / step) + 1)]
    written = "{:.1e}" if decimals > 4 or high >= 1e5 else f"{{:.{decimals}f}}"
    return [(place, written.format(place + 0.0)) for place in places]
