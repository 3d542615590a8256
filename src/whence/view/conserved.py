"""Whether scores that should add up to what is explained are off by more than that: then they explain nothing."""

from collections.abc import Mapping, Sequence

CODE = "not-conserved"
# Sums in float32 are good to about 1e-7 of the sizes of what is added: what is less than some of that is rounding.
_ROUNDING = 1e-6


def unconserved(
    method: str,
    scores: Sequence[float],
    axioms: Mapping[str, float],
    output: float | None,
    of: str,
) -> str | None:
    """Say that an explanation is none, where its method promises sums and they are off by more than the output.

    Whether the promise is kept, the residuals say that the explanation came with. Where there is one of the tokens,
    the sum of their scores less that is what they were given. Where there are those of layers alone, relevance began
    with 1 at the logit: it is off where a layer's is, and the scores are, too. `output`: what is explained, if known.
    """
    total, size = float(sum(scores)), float(sum(abs(score) for score in scores))
    own = [value for name, value in axioms.items() if "." not in name]
    layers = [abs(value) for name, value in axioms.items() if "." in name]
    if own:
        promised = max(abs(total - value) for value in own)
        off = max(map(abs, own))
    elif layers:
        promised = 1.0
        off = min(max(layers), abs(total - (promised if output is None else output)))
    else:
        return None
    if off <= max(promised, abs(output or 0.0), _ROUNDING * size):
        return None
    given = f"the {of} {output:.3g}" if output is not None else f"a {of}"
    return (
        f"{method}: this is no explanation of {given}: its scores add up to {total:.3g}, off by more than all that "
        "they should explain. Take another method, or test its ranking first: trust."
    )
