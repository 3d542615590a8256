"""The score of a word: the sum of its tokens' scores, their mean, or a number that was measured on the whole word."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

# "sum": scores are shares of something, and add up. "mean": each is an effect of its own, such as the fall of a
# probability without a token, and such effects do not add up. "measured": the method was asked about whole words.
WordsBy = Literal["sum", "mean", "measured"]

_SAID: dict[WordsBy, str] = {
    "sum": "",
    "mean": "the score of a word in several pieces is the mean of theirs, not what happens without the word",
    "measured": "the score of a word in several pieces was measured without the whole word; it is not their sum",
}


def word_score(scores: Sequence[float], places: Sequence[int], by: WordsBy) -> float:
    """Return a word's score from those of its tokens; what was not measured on whole words is a mean of effects."""
    total = sum(scores[place] for place in places)
    return total if by == "sum" else total / len(places)


def words_note(payload: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Say what the score of a word is where it is no sum, and there are words in several pieces."""
    by: WordsBy = explanation.get("words_by", "sum")
    return _SAID[by] if any(len(word["tokens"]) > 1 for word in payload["words"]) else ""
