"""Parameters: schemas read from signatures, values from text, presets, and one sentence for every bad value."""

from typing import Annotated, Literal

import pytest

from whence.core.errors import BadMethod, BadParameter
from whence.core.params import Range, read_schema
from whence.core.registry import resolve_parameters


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


KNOWN = read_schema(sample)


def test_resolve_parameters_of_nothing_given_returns_the_defaults():
    assert resolve_parameters("sample", KNOWN, {}) == {
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
def test_resolve_parameters_from_text_converts_to_the_declared_type(name, text, value):
    assert resolve_parameters("sample", KNOWN, {name: text}, from_text=True)[name] == value


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
def test_resolve_parameters_of_a_bad_value_raises_and_names_the_allowed_values(
    name, value, sentence
):
    with pytest.raises(BadParameter) as caught:
        resolve_parameters("sample", KNOWN, {name: value})
    assert sentence in str(caught.value)


def test_resolve_parameters_of_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        BadParameter, match=r"has no parameter 'step'; it has steps, .* Did you mean 'steps'"
    ):
        resolve_parameters("sample", KNOWN, {"step": 1})


def test_resolve_parameters_of_unreadable_text_quotes_the_text_as_typed():
    with pytest.raises(BadParameter, match="Got 'many'"):
        resolve_parameters("sample", KNOWN, {"steps": "many"}, from_text=True)


def test_read_schema_of_an_unsupported_type_or_no_default_raises_bad_method():
    def untyped(trace, *, what: list[int] = []):  # noqa: B006
        """Untyped."""

    def bare(trace, *, what: int):
        """Bare."""

    with pytest.raises(BadMethod, match="has the type"):
        read_schema(untyped)
    with pytest.raises(BadMethod, match="needs a default"):
        read_schema(bare)


PAPER = {"paper": {"steps": 7, "how": "mask"}}


def test_preset_replaces_defaults_and_given_values_override_the_preset():
    found = resolve_parameters("sample", KNOWN, {"steps": 3, "preset": "paper"}, presets=PAPER)
    assert found == {"steps": 3, "share": 0.5, "layer": None, "how": "mask", "loud": False}
    typed = resolve_parameters(
        "sample", KNOWN, {"preset": "paper", "loud": "yes"}, presets=PAPER, from_text=True
    )
    assert typed == {"steps": 7, "share": 0.5, "layer": None, "how": "mask", "loud": True}


@pytest.mark.parametrize("name", ["papr", None, 3])
def test_resolve_parameters_of_an_unknown_preset_names_the_known_presets(name):
    with pytest.raises(
        BadParameter, match=f"sample has no preset {name!r}; it has paper."
    ) as caught:
        resolve_parameters("sample", KNOWN, {"preset": name}, presets=PAPER)
    assert ("Did you mean 'paper'?" in str(caught.value)) == (name == "papr")
    with pytest.raises(BadParameter, match="it has none"):
        resolve_parameters("sample", KNOWN, {"preset": name})
