"""The command `whence trust`: tests of explanations of one input on their model, printed as a trust card."""

from typing import Any, cast

from whence.cli import options
from whence.cli.options import TESTS, option


def trust(
    given: options.InputOptions,
    model: options.ModelOptions,
    methods: options.MethodOptions,
    removal: options.RemovalOptions,
    output: options.OutputOptions,
    target: options.TargetOption = None,
    budget: int | None = option(
        TESTS, "How often the tests may ask the model, at most.", metavar="N"
    ),
    seed: options.Seed = 0,
) -> None:
    """Test an explanation on the model it is about: should you believe it?

    Each test ends in a word: holds, weak, fails, or not tested. The exit status is 0 whatever it is.

    Examples:

        whence trust "a gripping, beautifully acted film"

        whence trust "not a bad film" --method attcat --method rollout --html trust.html

        whence trust "not a bad film" --remove all --json

        whence trust --image photo.jpg --model some/vit-model --remove blur --html trust.html
    """
    options.check_budget(budget)
    with given.open(model, methods, removal) as (explainer, source, how, console):
        card = explainer.trust(
            source,
            target=target,
            remove=cast(Any, removal.remove),
            unit=cast(Any, removal.unit),
            budget=budget,
            seed=seed,
            **how,
        )
    output.print(card, console)
