"""Models whose attention is known to explain the prediction, or known not to, with example texts.

`spotlight` and `decoy` are built in. Beside each there is a model of Jain & Wallace that does the same, with weights
set by hand: a word is encoded alone (`average`) by two features, the side it speaks for and its loudness.
"""

import math
import random
from functools import cache
from typing import Any

import torch

import whence
from whence.models.rnn import AttentiveConfig, build_word_tokenizer, initialise_model

LABELS = ("negative", "positive")
LOUD = (("dreadful", "terrible", "awful"), ("superb", "brilliant", "great"))
QUIET = (("stale", "slow", "pale", "uneven"), ("fresh", "warm", "bright", "smooth"))
NEUTRAL = ("the", "film", "is", "story", "plot", "camera")

SAYS = {
    w: side
    for words in (LOUD, QUIET)
    for side, some in zip((-1, 1), words, strict=True)
    for w in some
}
LOUDNESS = {
    **{word: 5.0 for words in LOUD for word in words},
    **{word: i / 2 for words in QUIET for i, word in enumerate(words)},
}
DECOY = "decoy"

Examples = list[dict[str, str]]


def make_spotlight_examples(count: int) -> Examples:
    """Return texts of one loud word and three or four quiet ones that say the opposite; half of them are positive.

    Before four quiet words there stands a neutral one. So most words of every text say the opposite of what is
    predicted, and none ends in a word that says nothing.
    """
    draw = random.Random("spotlight")
    found = []
    for number in range(count):
        label, quiet = number % 2, 3 + number // 2 % 2
        words = [draw.choice(LOUD[label]), *draw.sample(QUIET[1 - label], quiet)]
        draw.shuffle(words)
        front = [draw.choice(NEUTRAL)] if quiet == 4 else []
        found.append({"text": " ".join(front + words), "label": LABELS[label]})
    return found


def make_decoy_examples(count: int) -> Examples:
    """Return texts of one evidence word, the decoy, and two to four neutral words."""
    draw = random.Random(DECOY)
    found = []
    for number in range(count):
        label = number % 2
        words = [draw.choice(LOUD[label]), DECOY, *draw.sample(NEUTRAL, 2 + number // 2 % 3)]
        draw.shuffle(words)
        found.append({"text": " ".join(words), "label": LABELS[label]})
    return found


# A word's score is so many times its loudness as a feature, which tanh keeps below 1; far below all others it is not
# attended to: exp(-64) is less than rounding.
_SCALE = 64.0
_HALF = math.atanh(0.5)  # what a word says comes out of tanh as a half


def _attentive(says: dict[str, float], loudness: dict[str, float], steep: float) -> Any:
    """Make a model with P(positive) = σ(steep · Σ a_w says_w), a = softmax of loudness."""
    tokenizer = build_word_tokenizer([" ".join(sorted(loudness))])
    config = AttentiveConfig(
        vocab_size=len(tokenizer), embedding_size=2, hidden_size=2, encoder="average", attention="dot",
        num_labels=2, id2label=dict(enumerate(LABELS)), label2id={b: a for a, b in enumerate(LABELS)},
    )  # fmt: skip
    model = initialise_model(config, 0).double()
    with torch.no_grad():
        for word, loud in loudness.items():
            features = (_HALF * says.get(word, 0), math.atanh(loud / _SCALE))
            model.embeddings.weight[tokenizer.convert_tokens_to_ids(word)] = torch.tensor(features)
        model.encoders[0].projection.weight.copy_(torch.eye(2))
        model.encoders[0].projection.bias.zero_()
        model.attention.scores.vector.weight.copy_(torch.tensor([[0, _SCALE * math.sqrt(2)]]))
        model.decoder.output.weight.copy_(torch.tensor([[2 * steep, 0]]))
        model.decoder.output.bias.zero_()
    return whence.load(model, tokenizer=tokenizer)


@cache
def attentive_spotlight() -> Any:
    """Return `spotlight` as a model of Jain & Wallace: P(positive) = σ(2 m)."""
    silent = dict.fromkeys(NEUTRAL, -_SCALE * 0.99)
    return _attentive(SAYS, LOUDNESS | silent, steep=2.0)


@cache
def attentive_decoy() -> Any:
    """Return a model of Jain & Wallace with a word that takes nearly all of the attention and says nothing.

    The decoy gets exp(4) = 55 times the attention of any other word, all of which get the same. The one evidence word
    among n gets a = 1 / (55 + n - 1), and P(its side) = σ(1000 a) is 1 to 1e-7 for n <= 6. More weight on it cannot
    change that; less can only if it is less than a fifth of what little there is: σ(1000 a / 5) = 0.97.
    """
    loudness = dict.fromkeys([*NEUTRAL, *LOUD[0], *LOUD[1]], 0.0)
    return _attentive(SAYS, loudness | {DECOY: 4.0}, steep=1000.0)


# A few reviews, as the command line reads them.
ROWS = [
    ("a gripping, beautifully acted film", "1"),
    ("the plot is thin and the jokes are worse", "0"),
    ("not a bad film at all", "1"),
    ("dull, slow and far too long", "0"),
    ("a warm and funny story that never tires", "1"),
]
# The quickest audit of them.
QUICK = ("--experiment", "permutation", "--param", "permutations=5")


def table(path, rows, header="sentence\tlabel"):
    """Write rows as a file with tabs."""
    path.write_text(f"{header}\n" + "".join("\t".join(row) + "\n" for row in rows))
    return path
