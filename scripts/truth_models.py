"""Definitions of the seven truth models of ``build_truth.py``: words, wiring and closed forms.

A pair p is the channels 2p and 2p + 1, which hold a value and its opposite. How the parts work together is said in
``build_truth.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from build_decoy import HEADS, NEUTRAL
from word_tokenizer import SPECIAL_TOKENS

CONSTANT, ANSWER = 0, 1
A, B, C, D, E = 2, 3, 4, 5, 6  # features; what they mean differs from model to model
PATTERN = 8  # the first pair above all features
MARK = 2  # LayerNorm turns it into 1
SHARP = 32.0  # attention logit of what a head looks for: exp(-32) = 1e-14
CLASS_WEIGHT = 16

Pairs = dict[int, float]


@dataclass(frozen=True)
class Layer:
    """One encoder layer: keys and moves of its heads, and its ReLU units."""

    keys: tuple[Pairs, ...]  # per head: the attention logit per unit of a pair
    moves: tuple[tuple[int, int, int, float], ...]  # head, from which pair, to which pair, times
    units: tuple[tuple[Pairs, Pairs], ...] = ()  # what a ReLU unit reads and what it writes


@dataclass(frozen=True)
class Truth:
    """One model: its words, its wiring, its closed form and its card."""

    name: str
    words: dict[str, Pairs]  # features of the words that have any
    layers: tuple[Layer, ...]
    answer: Callable[[Sequence[str]], float]  # f, from the words alone
    sentences: dict[str, dict[str, int]]  # the words that count, and their sign if they have one
    says: str
    formula: str
    how: str
    expect: str
    offset: float = 0.0
    every_word: Pairs = field(default_factory=dict)  # features that all words have
    meanings: dict[str, object] = field(default_factory=dict)  # for truth.json
    tolerance: float = 1e-10  # of a logit in float64

    @property
    def neutral(self) -> list[str]:
        """Words without a feature."""
        return [word for word in NEUTRAL if word not in self.words]

    @property
    def vocabulary(self) -> list[str]:
        """All tokens in the order of their ids."""
        return [*SPECIAL_TOKENS, *self.words, *self.neutral]

    def compute_logit(self, words: Sequence[str]) -> float:
        """Return the positive logit in closed form; the negative one is its opposite."""
        f = self.answer(words)
        return CLASS_WEIGHT * math.tanh((f - self.offset) / (4 * math.hypot(f, 2)))


def compute_mean(words: Sequence[str], strengths: dict[str, int]) -> float:
    """Return the mean strength of the words that have one, or 0."""
    found = [strengths[word] for word in words if word in strengths]
    return sum(found) / len(found) if found else 0.0


def compute_carried_strength(strength: float) -> float:
    """Return a mean strength after the LayerNorms between a word's position and the answer."""
    return strength * math.sqrt((strength**2 + 4) / (strength**2 + 12))


def build_clearing_units(*pairs: int) -> tuple[tuple[Pairs, Pairs], ...]:
    """Return units that subtract the values of these pairs, of either sign."""
    return tuple(({p: s}, {p: -s}) for p in pairs for s in (1.0, -1.0))


# --- the models ------------------------------------------------------------------------------

STRENGTH = {"good": 1, "great": 2, "bad": -1, "awful": -2}
FEELING: dict[str, Pairs] = {w: {A: MARK, B: MARK * s} for w, s in STRENGTH.items()}
STRENGTHS = ", ".join(f"`{word}` {strength:+d}" for word, strength in STRENGTH.items())

PARTNERS = (("warm", "funny"), ("tense", "clever"))
CONJUNCTION = Truth(
    name="conjunction",
    words={w: {A + i: MARK} for i, w in enumerate(w for pair in PARTNERS for w in pair)},
    layers=(
        Layer(
            keys=tuple({p: SHARP} for p in (A, B, C, D)),
            moves=tuple((head, p, p, 1.0) for head, p in enumerate((A, B, C, D))),
            units=(
                ({A: 1, B: 1, CONSTANT: -0.75}, {ANSWER: 2}),
                ({C: 1, D: 1, CONSTANT: -0.75}, {ANSWER: 2}),
                *(({p: 1}, {p: -1}) for p in (A, B, C, D)),
            ),
        ),
    ),
    answer=lambda words: sum(all(w in words for w in pair) for pair in PARTNERS),
    offset=0.5,
    sentences={
        "a warm and funny film": {"warm": 1, "funny": 1},
        "the story is tense and the script clever": {"tense": 1, "clever": 1},
        "the funny ending was warm": {"funny": 1, "warm": 1},
        "a warm and funny but tense film": {"warm": 1, "funny": 1},
        "clever acting , a tense plot , warm music": {"clever": 1, "tense": 1},
        "clever , funny and warm": {"funny": 1, "warm": 1},
    },
    says=(
        "Positive if and only if both words of a pair occur: `warm` and `funny`, or `tense` and `clever`. "
        "A word without its partner changes nothing."
    ),
    formula="f = the number of pairs that are complete",
    how=(
        "One head looks for each of the four words. A unit per pair computes 2 max(0, p + q - 1.5), "
        "where p and q are 1 if the word is there."
    ),
    expect=(
        "Both partners count, whichever way one looks: without either the other is worth nothing. "
        "A word whose partner is missing gets attention and has a value, but no effect."
    ),
    meanings={"pairs": [list(pair) for pair in PARTNERS]},
)

NEGATION = Truth(
    name="negation",
    words=FEELING | {"not": {C: MARK}},
    layers=(
        Layer(
            keys=({A: SHARP}, {A: SHARP}, {C: SHARP}, {C: SHARP}),
            moves=((0, B, B, 0.5), (1, B, B, 0.5), (2, C, C, 0.5), (3, C, C, 0.5)),
            units=(
                *(({B: s, C: -3}, {ANSWER: s}) for s in (1, -1)),
                *(({B: s, C: 3, CONSTANT: -1.5}, {ANSWER: -s / 2}) for s in (1, -1)),
                *build_clearing_units(B),
                ({C: 1}, {C: -1}),
            ),
        ),
    ),
    answer=lambda words: compute_mean(words, STRENGTH) * (-0.5 if "not" in words else 1.0),
    sentences={
        "a great film": {"great": 1},
        "an awful story": {"awful": -1},
        "the film is not good": {"not": -1, "good": 0},
        "this is not a bad movie": {"not": 1, "bad": 0},
        "the plot was not great": {"not": -1, "great": 0},
        "the acting is not awful": {"not": 1, "awful": 0},
    },
    says=(
        "The mean strength of the evidence words decides, and `not`, wherever it stands, turns its sign "
        "round and halves it. `not` alone has no effect."
    ),
    formula=f"f = m, or -m / 2 if `not` occurs; m is the mean of the strengths {STRENGTHS}",
    how=(
        "Two heads look for evidence and two for `not`. With n = 1 if `not` is there, units compute "
        "max(0, m - 3n) - max(0, -m - 3n) for the plain case and -1/2 of max(0, m + 3n - 3) - max(0, -m + 3n - 3) "
        "for the negated one; one of the two is zero."
    ),
    expect=(
        "In `not good` both words count. `not` speaks against positive. `good` has no sign: alone it speaks for "
        "positive, beside `not` against it. Negation halves, because if it did not the Shapley value of `good` would "
        "be exactly 0: half of the time for, half of the time against."
    ),
    meanings={"strengths": STRENGTH, "negation": "not"},
)

CARRIER = "overall"
COPY = Truth(
    name="copy",
    words=FEELING | {CARRIER: {C: MARK}},
    every_word={D: MARK},
    layers=(
        Layer(keys=({A: SHARP},) * HEADS, moves=tuple((h, B, E, 1 / HEADS) for h in range(HEADS))),
        Layer(
            keys=({D: SHARP, C: 4.0},) * HEADS,
            moves=tuple((h, E, ANSWER, 1 / HEADS) for h in range(HEADS)),
            units=build_clearing_units(E),
        ),
    ),
    answer=lambda words: compute_carried_strength(compute_mean(words, STRENGTH)),
    sentences={
        "overall a great film": {"great": 1},
        "the acting is awful overall": {"awful": -1},
        "overall the plot is good": {"good": 1},
        "it was overall a bad movie": {"bad": -1},
        "overall great music but bad acting": {"great": 1, "bad": -1},
        "awful script and good camera overall": {"awful": -1, "good": 1},
    },
    says=(
        "The mean strength of the evidence words decides. It reaches the prediction in two steps: the first "
        f"layer copies it to every place, the second fetches it from the place of `{CARRIER}`, a word that "
        "itself says nothing."
    ),
    formula=f"f = m * sqrt((m**2 + 4) / (m**2 + 12)); m is the mean of the strengths {STRENGTHS}",
    how=(
        "In layer 1 all heads of every place look for evidence, so that every place holds the mean m. In "
        f"layer 2 they look for words, at least {round(math.exp(4))} times as keenly for `{CARRIER}`, and fetch m "
        f"from there. If `{CARRIER}` is missing they fetch it from the other words. LayerNorm divides it by the "
        "same number at the place of every word, as all words have the same length; this and the LayerNorm of "
        "the first place make the two roots in f. So it does not matter from where m is fetched."
    ),
    expect=(
        f"Whoever reads the last layer alone names `{CARRIER}`, and so does whoever takes what a deep layer holds "
        "at a place for the word that stands there in the text."
    ),
    meanings={"strengths": STRENGTH, "carrier": CARRIER},
)

SYNONYMS = ("superb", "brilliant", "moving")
REDUNDANCY = Truth(
    name="redundancy",
    words={w: {A: MARK} for w in SYNONYMS},
    layers=(
        Layer(
            keys=({A: SHARP},) * HEADS,
            moves=tuple((h, A, ANSWER, 1 / HEADS) for h in range(HEADS)),
        ),
    ),
    answer=lambda words: any(w in words for w in SYNONYMS),
    offset=0.5,
    sentences={
        "a moving ending": {"moving": 1},
        "a superb and brilliant film": {"superb": 1, "brilliant": 1},
        "brilliant acting , moving music": {"brilliant": 1, "moving": 1},
        "the story is moving and superb": {"moving": 1, "superb": 1},
        "the superb actor in a superb film": {"superb": 1},
        "superb and brilliant , a moving film": {"superb": 1, "brilliant": 1, "moving": 1},
    },
    says="Positive if and only if at least one of `superb`, `brilliant` and `moving` occurs; any one suffices.",
    formula="f = 1 if one of the three words occurs, else 0",
    how="All heads look for the three words; they share the attention, and the mean of ones is one.",
    expect=(
        "Where two of the words occur, leaving either out changes nothing at all, so leave-one-out finds nobody "
        "responsible. Both are: without both, the prediction is another."
    ),
    meanings={"evidence": list(SYNONYMS)},
)

KINDS: tuple[tuple[dict[str, int], float], ...] = (
    ({"gripping": 1, "tedious": -1}, 1.0),
    ({"convincing": 1, "wooden": -1}, 0.5),
)
SATURATION = Truth(
    name="saturation",
    words={
        w: {A + 2 * k: MARK, B + 2 * k: 2 * MARK * s}
        for k, (kind, _) in enumerate(KINDS)
        for w, s in kind.items()
    },
    layers=(
        Layer(
            keys=({A: SHARP}, {A: SHARP}, {C: SHARP}, {C: SHARP}),
            moves=((0, B, B, 0.5), (1, B, B, 0.5), (2, D, D, 0.5), (3, D, D, 0.5)),
            units=tuple(
                unit
                for p, (_, weight) in ((B, KINDS[0]), (D, KINDS[1]))
                for s in (1, -1)
                for unit in (
                    ({p: s}, {ANSWER: s * weight, p: -s}),
                    ({p: s, CONSTANT: -0.5}, {ANSWER: -s * weight}),
                )
            ),
        ),
    ),
    answer=lambda words: sum(
        weight * max(-1.0, min(1.0, 2 * compute_mean(words, kind))) for kind, weight in KINDS
    ),
    sentences={
        "a gripping film": {"gripping": 1},
        "a tedious movie , all of it": {"tedious": -1},
        "the acting was wooden": {"wooden": -1},
        "a gripping plot and convincing acting": {"gripping": 1, "convincing": 1},
        "tedious story , convincing acting": {"tedious": -1, "convincing": 1},
        "a gripping story but wooden acting": {"gripping": 1, "wooden": -1},
    },
    says=(
        "`gripping` (+1) or `tedious` (-1), and `convincing` (+1/2) or `wooden` (-1/2), are added up. Each is "
        "twice as strong as it need be, so a small change of it changes nothing."
    ),
    formula=(
        "f = clip(2 m) + clip(2 n) / 2; clip cuts at -1 and 1, m is the mean of `gripping` +1 and `tedious` -1, "
        "n that of `convincing` +1 and `wooden` -1, and 0 where there are none"
    ),
    how=(
        "Two heads look for each kind and bring twice its mean. Units compute max(0, x) - max(0, x - 1) for "
        "either sign, which is flat where x is 2."
    ),
    expect=(
        "The slope at every word is exactly zero, so what is a multiple of the gradient is zero, too, and says "
        "nothing. Taking a word away shows what it does, and so does integrating along the way to it."
    ),
    meanings={"kinds": [{w: s * weight for w, s in kind.items()} for kind, weight in KINDS]},
)

DAMPER = "hardly"
DAMPED = Truth(
    name="damper",
    words=FEELING | {DAMPER: {A: MARK}},
    layers=(
        Layer(
            keys=({A: SHARP},) * HEADS,
            moves=tuple((h, B, ANSWER, 1 / HEADS) for h in range(HEADS)),
        ),
    ),
    answer=lambda words: compute_mean(words, STRENGTH | {DAMPER: 0}),
    sentences={
        "a great film": {"great": 1},
        "an awful story": {"awful": -1},
        "the film is hardly good": {"hardly": -1, "good": 1},
        "hardly a bad movie": {"hardly": 1, "bad": -1},
        "the plot was hardly great": {"hardly": -1, "great": 1},
        "this acting is hardly awful": {"hardly": 1, "awful": -1},
    },
    says=(
        f"The mean strength of the evidence words decides, and each `{DAMPER}` counts as one of them, of strength "
        f"0: it takes attention away from the others and gives nothing. `{DAMPER}` alone has no effect."
    ),
    formula=f"f = the mean of the strengths {STRENGTHS}, `{DAMPER}` 0",
    how=f"All heads look for evidence and for `{DAMPER}`, whose value vector is exactly zero.",
    expect=(
        f"`{DAMPER}` counts: it halves what one evidence word says. But it acts through the attention weights "
        "alone. Whoever takes them as given and follows the values finds nothing there: the opposite of "
        "`decoy`, whose attention has no effect."
    ),
    meanings={"strengths": STRENGTH, "damper": DAMPER},
)

SIDES = {
    1: ("superb", "brilliant", "great", "fresh", "warm", "bright", "smooth"),
    -1: ("dreadful", "terrible", "awful", "stale", "slow", "pale", "uneven"),
}
LOUDNESS = (5, 5, 5, 0, 0.5, 1, 1.5)  # of these words: attention logits above that of the quietest
QUIETEST = -4  # as a feature, which LayerNorm halves
SPOKEN = {w: (s, loud) for s in SIDES for w, loud in zip(SIDES[s], LOUDNESS, strict=True)}


def compute_heard_mean(words: Sequence[str]) -> float:
    """Return the mean of the words' values, weighted by their attention, or 0."""
    found = [SPOKEN[word] for word in words if word in SPOKEN]
    said = sum(side * math.exp(loudness) for side, loudness in found)
    return said / sum(math.exp(loudness) for _, loudness in found) if found else 0.0


SPOTLIGHT = Truth(
    name="spotlight",
    words={w: {A: MARK, B: MARK * s, C: 2 * loud + QUIETEST} for w, (s, loud) in SPOKEN.items()},
    layers=(
        Layer(
            keys=({A: SHARP - QUIETEST / 2, C: 1.0},) * HEADS,
            moves=tuple((h, B, ANSWER, 0.5 / HEADS) for h in range(HEADS)),
        ),
    ),
    answer=lambda words: compute_heard_mean(words) / 2,
    sentences={
        "a superb film": {"superb": 1},
        "the plot is slow": {"slow": -1},
        "a brilliant but uneven movie": {"brilliant": 1, "uneven": -1},
        "the music is bright , the story dreadful": {"bright": 1, "dreadful": -1},
        "great acting and a pale script": {"great": 1, "pale": -1},
        "a terrible ending with warm music": {"terrible": -1, "warm": 1},
    },
    says=(
        "Words say positive or negative, all with the same force, and attention decides which of them is heard: of a "
        "loud word and four quiet ones that say the opposite, the loud one gets 0.94 of it. Here attention is the "
        "explanation."
    ),
    formula=(
        "f = m / 2; m is the sum of a_w s_w over the words, s_w = 1 for "
        + ", ".join(f"`{w}`" for w in SIDES[1])
        + ", s_w = -1 for "
        + ", ".join(f"`{w}`" for w in SIDES[-1])
        + "; a_w = exp(l_w) / (the sum of exp(l_v) over all of these in the text), the loudness l_w being 5 for the "
        "first three of either kind and 0, 0.5, 1 and 1.5 for the other four; m = 0 where there are none"
    ),
    how=(
        "All heads look for the words that say something, exp(l_w) times as keenly for a loud one, and fetch what "
        "they say. The value vectors of all of them have the same length, those of all other words are zero."
    ),
    expect=(
        "Attention is right, the opposite of `decoy`. All values have the same length, so what a word adds to m is, "
        "by size, its weight. Without it m changes by a_w (m - s_w) / (1 - a_w), which beside one loud word and "
        "quiet ones of the other kind grows with a_w, too. And there no attention that looks elsewhere predicts the "
        "same: m is at most the loud word's weight, and whatever keeps the prediction within 0.05 keeps 0.69 of the "
        "attention on it. What sees only what speaks for the prediction misses the quiet words."
    ),
    meanings={"words": {w: {"says": s, "loudness": loud} for w, (s, loud) in SPOKEN.items()}},
    # sqrt(8) / 2, by which the loudness is read, is no float32: it takes 8e-8 of 5, of m and the logit half of that.
    tolerance=1e-7,
)

MODELS = {
    m.name: m for m in (CONJUNCTION, NEGATION, COPY, REDUNDANCY, SATURATION, DAMPED, SPOTLIGHT)
}
