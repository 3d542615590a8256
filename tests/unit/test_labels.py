"""Labels of the data as indices of the model: by name, in another case, by number, and never guessed."""

import pytest

from whence.core.errors import BadExamples
from whence.data.dataset import resolve_label_indices
from whence.data.example import Example

TWO = ("negative", "positive")


def of(*labels):
    return [Example("a text", label) for label in labels]


@pytest.mark.parametrize(
    ("said", "labels", "found"),
    [
        (["positive", "negative", "positive"], TWO, [1, 0, 1]),
        (["POSITIVE", " Negative "], TWO, [1, 0]),
        (["1", "0", "1"], TWO, [1, 0, 1]),
        (["1.0", "0.0"], TWO, [1, 0]),
        (["LABEL_0", "LABEL_1"], TWO, [0, 1]),
        (["0", "LABEL_1"], TWO, [0, 1]),
        (["False", "true"], TWO, [0, 1]),
        # A name beats a number: these models count stars from 1.
        (["1", "3"], ("1", "2", "3"), [0, 2]),
        (["0", "2"], ("a", "b", "c"), [0, 2]),
        # Exact names first, where only the case tells two apart.
        (["a", "A"], ("A", "a"), [1, 0]),
        (["1", "0"], ("LABEL_0", "LABEL_1"), [1, 0]),
    ],
)
def test_resolve_label_indices_by_name_case_or_number_gives_model_indices(said, labels, found):
    assert resolve_label_indices(of(*said), labels) == found


@pytest.mark.parametrize(
    ("said", "labels", "message"),
    [
        ([None, None], TWO, r"None of the 2 examples has a label. Name the column .*--label COLUMN"),
        (["1", None, "0"], TWO, r"1 of 3 examples have no label"),
        (["1", "1"], TWO, r"All 2 examples have the label '1'. Give examples of at least two classes"),
        (["1"], TWO, r"The only example has the label '1'. Give examples of at least two classes"),
        # Two ways to write one class are one class.
        (["1", "1.0"], TWO, r"All 2 examples have the label"),
        (["positive", "neutral", "negative", "neutral"], TWO,
         r"The label 'neutral' \(2 of 4 examples\) is not one of the model's: 0 'negative', 1 'positive'.*--label"),
        (["positive", "0"], TWO, r"The label '0' \(1 of 2 examples\) is not one of the model's"),
        (["0", "1", "2"], TWO, r"The label '2' \(1 of 3"),
        (["-1", "1"], TWO, r"The label '-1'"),
        (["True", "False"], ("a", "b", "c"), r"The label 'True'"),
        (["A", "B"], ("b", "B", "a"), r"The label 'A'"),
        (["²", "1"], TWO, r"The label '²'"),
        (["x"] * 2, tuple(f"class {i}" for i in range(20)), r"7 'class 7' and 12 more"),
        (["9" * 5000, "1"], TWO, r"The label '9{40}' "),
    ],
)  # fmt: skip
def test_resolve_label_indices_of_unknown_or_missing_labels_raises_bad_examples(
    said, labels, message
):
    with pytest.raises(BadExamples, match=message):
        resolve_label_indices(of(*said), labels)
