"""A signature is a schema; one sentence for every bad value."""

from typing import Annotated, Literal

import pytest

from whence.core.errors import BadMethod, BadParameter
from whence.core.params import Range, checked, schema


def sample(
    trace,
    *,
    steps: Annotated[int, Range(min=1)] = 32,
    share: Annotated[float, Range(0, 1)] = 0.5,
    layer: int | None = None,
    how: Literal["mask", "delete"] | None = None,
    loud: bool = False,
):
    """A sample."""


KNOWN = schema(sample)


def test_defaults():
    assert checked("sample", KNOWN, {}) == {
        "steps": 32, "share": 0.5, "layer": None, "how": None, "loud": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("steps", "4", 4), ("share", "0.25", 0.25), ("share", "1", 1.0), ("layer", "none", None),
        ("layer", "-1", -1), ("how", "mask", "mask"), ("how", "none", None), ("loud", "true", True),
        ("loud", "No", False),
    ],
)  # fmt: skip
def test_values_from_text(name, text, value):
    assert checked("sample", KNOWN, {name: text}, from_text=True)[name] == value


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("steps", 0, "The 'steps' parameter of sample must be an integer >= 1. Got 0."),
        ("steps", 2.5, "must be an integer >= 1. Got 2.5."),
        ("steps", True, "must be an integer >= 1. Got True."),
        ("share", 1.5, "must be a number from 0 to 1. Got 1.5."),
        ("share", float("nan"), "Got nan."),
        ("how", "burn", "must be 'mask', 'delete' or none. Got 'burn'."),
        ("loud", 1, "must be true or false. Got 1."),
        ("layer", "x", "must be an integer or none. Got 'x'."),
    ],
)
def test_one_sentence_for_every_bad_value(name, value, sentence):
    with pytest.raises(BadParameter) as caught:
        checked("sample", KNOWN, {name: value})
    assert sentence in str(caught.value)


def test_unknown_parameter():
    with pytest.raises(
        BadParameter, match=r"has no parameter 'step'; it has steps, .* Did you mean 'steps'"
    ):
        checked("sample", KNOWN, {"step": 1})


def test_text_that_cannot_be_read_is_refused_as_it_was_typed():
    with pytest.raises(BadParameter, match="Got 'many'"):
        checked("sample", KNOWN, {"steps": "many"}, from_text=True)


def test_a_parameter_needs_a_type_that_can_be_checked_and_a_default():
    def untyped(trace, *, what: list[int] = []):  # noqa: B006
        """Untyped."""

    def bare(trace, *, what: int):
        """Bare."""

    with pytest.raises(BadMethod, match="has the type"):
        schema(untyped)
    with pytest.raises(BadMethod, match="needs a default"):
        schema(bare)


PAPER = {"paper": {"steps": 7, "how": "mask"}}


def test_a_preset_replaces_defaults_and_what_is_given_wins_over_it():
    found = checked("sample", KNOWN, {"steps": 3, "preset": "paper"}, presets=PAPER)
    assert found == {"steps": 3, "share": 0.5, "layer": None, "how": "mask", "loud": False}
    typed = checked(
        "sample", KNOWN, {"preset": "paper", "loud": "yes"}, presets=PAPER, from_text=True
    )
    assert typed == {"steps": 7, "share": 0.5, "layer": None, "how": "mask", "loud": True}


@pytest.mark.parametrize("name", ["papr", None, 3])
def test_unknown_preset(name):
    with pytest.raises(
        BadParameter, match=f"sample has no preset {name!r}; it has paper."
    ) as caught:
        checked("sample", KNOWN, {"preset": name}, presets=PAPER)
    assert ("Did you mean 'paper'?" in str(caught.value)) == (name == "papr")
    with pytest.raises(BadParameter, match="it has none"):
        checked("sample", KNOWN, {"preset": name})
