"""Builder of seven truth models, BERT classifiers with weights set by hand: writes and verifies them.

Beside ``decoy`` (``build_decoy.py``) there are seven, each a question that explanations get wrong:

* ``conjunction``: two words that count only together;
* ``negation``: a word that turns another round, and says nothing alone;
* ``copy``: evidence that reaches the prediction through the place of another word;
* ``redundancy``: two words of which either suffices;
* ``saturation``: evidence so strong that its slope is zero;
* ``damper``: a word without a value, which acts through the attention weights alone;
* ``spotlight``: words that are heard as far as they are attended to, so that attention is right.

How they work, in the order of the forward pass (pairs of channels hold ``+v, -v``, as in ``decoy``):

* embeddings: the token-type vector puts 4 into a *void* pair of every token, the position vector of place
  0 puts 4 into the *constant* pair and two more void pairs. LayerNorm divides every word, and [CLS] at its
  place, by exactly 2 and drops the void pairs. All special tokens come out as the zero vector (but for the
  constant of place 0), so masking, padding and unknowing a word are one thing, and [SEP] does nothing.
  Words hold *features*; the rest of a word is a pattern of its own that nothing reads;
* attention: the query is constant. A head looks for a feature so sharply that a word that has it takes all
  of the attention but 1e-14, and moves the *mean* over the words that have it. If there is none the head
  looks everywhere and moves zeros. So [CLS] gets 0 or the mean, however long the text is;
* LayerNorm rescales [CLS]. All that follows is proportional to its vector (ReLU, no bias), so the constant
  of place 0 serves as the number 2 whatever the scale is;
* feed-forward: ReLU units compute the answer f and take the features away again, so that the last
  LayerNorm sees f and the constant alone;
* pooler and classifier: logit_positive = -logit_negative = 16 tanh((f - o) / (4 sqrt(f^2 + 4))).

``copy`` has a second layer, which fetches from the place of a carrier word what the first has copied there. Every
other model has one layer. What each of them looks for and computes stands in ``truth_models.py``.

Usage::

    python scripts/build_truth.py             # write all folders and verify their claims
    python scripts/build_truth.py --out DIR   # write them elsewhere
"""

from __future__ import annotations

import argparse
import math
import random
from itertools import product
from pathlib import Path
from textwrap import fill

import torch
from build_decoy import (
    HEAD_WIDTH,
    HEADS,
    POSITIONS,
    ROOT,
    WIDTH,
    build_pair_reader,
    build_tokenizer_config,
    unfold,
    write_files,
)
from build_decoy import build_config as decoy_config
from torch import Tensor
from truth_models import ANSWER, CLASS_WEIGHT, CONSTANT, MODELS, PATTERN, Layer, Pairs, Truth
from word_tokenizer import SPECIAL_TOKENS, build_tokenizer

VOID = (13, 14, 15)
VOID_VALUE = 4
SQUARES = 64  # the variance is 2 * 64 / 32 = 4, and LayerNorm divides by 2
POOL_WEIGHT = 1 / 16
UNITS = 16


# --- weights ---------------------------------------------------------------------------------


def build_word_pairs(truth: Truth, token: str) -> list[int]:
    """Return the value of a token's word embedding in every pair: features, and a pattern by the spelling."""
    pairs = [0] * (WIDTH // 2)
    if token in SPECIAL_TOKENS:
        return pairs
    for pair, value in (truth.every_word | truth.words.get(token, {})).items():
        pairs[pair] = int(value)
    left = SQUARES - VOID_VALUE**2 - sum(value * value for value in pairs)
    own = slice(PATTERN, VOID[0])
    draw = random.Random(token)
    while sum(value * value for value in pairs[own]) != left:
        pairs[own] = [int(draw.random() * 11) - 5 for _ in pairs[own]]
    return pairs


def build_channels(values: Pairs) -> list[float]:
    """Return channels that hold only these pairs."""
    return unfold([int(values.get(pair, 0)) for pair in range(WIDTH // 2)])


def build_embedding_weights(truth: Truth) -> dict[str, Tensor]:
    """Return word, position and type tables, and a LayerNorm that drops the void pairs."""
    place = torch.zeros(POSITIONS, WIDTH)
    place[0] = torch.tensor(
        build_channels({CONSTANT: VOID_VALUE, VOID[0]: VOID_VALUE, VOID[1]: VOID_VALUE})
    )
    keep = torch.ones(WIDTH)
    keep[2 * VOID[0] :] = 0
    words = [unfold(build_word_pairs(truth, token)) for token in truth.vocabulary]
    return {
        "word_embeddings.weight": torch.tensor(words),
        "position_embeddings.weight": place,
        "token_type_embeddings.weight": torch.tensor([build_channels({VOID[2]: VOID_VALUE})] * 2),
        "LayerNorm.weight": keep,
        "LayerNorm.bias": torch.zeros(WIDTH),
    }


def build_reading_row(pairs: Pairs) -> Tensor:
    """Return a row of weights that gives a weighted sum of pairs."""
    return torch.stack([build_pair_reader(pair, weight) for pair, weight in pairs.items()]).sum(0)


def build_writing_column(pairs: Pairs) -> Tensor:
    """Return a column of weights that adds a unit to pairs."""
    column = torch.zeros(WIDTH)
    for pair, weight in pairs.items():
        column[2 * pair], column[2 * pair + 1] = weight, -weight
    return column


def build_layer_weights(layer: Layer) -> dict[str, Tensor]:
    """Return one encoder layer: attention, units, and plain LayerNorms."""
    query = torch.zeros(WIDTH)
    key, value, output = (torch.zeros(WIDTH, WIDTH) for _ in range(3))
    up, down = torch.zeros(UNITS, WIDTH), torch.zeros(WIDTH, UNITS)
    for head, looked_for in enumerate(layer.keys):
        first = head * HEAD_WIDTH
        query[first] = 1.0
        key[first] = build_reading_row(looked_for) * math.sqrt(HEAD_WIDTH)
        moves = [move for move in layer.moves if move[0] == head]
        for number, (_, source, target, times) in enumerate(moves):
            place = first + 2 * number
            value[place] = build_pair_reader(source, times)
            value[place + 1] = -value[place]
            output[2 * target, place] = output[2 * target + 1, place + 1] = 1.0
    for unit, (reads, writes) in enumerate(layer.units):
        up[unit], down[:, unit] = build_reading_row(reads), build_writing_column(writes)
    weights = {
        "attention.self.query.weight": torch.zeros(WIDTH, WIDTH),
        "attention.self.query.bias": query,
        "attention.self.key.weight": key,
        "attention.self.value.weight": value,
        "attention.output.dense.weight": output,
        "intermediate.dense.weight": up,
        "intermediate.dense.bias": torch.zeros(UNITS),
        "output.dense.weight": down,
    }
    for name in (
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "output.dense",
    ):
        weights[f"{name}.bias"] = torch.zeros(WIDTH)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        weights |= {f"{name}.weight": torch.ones(WIDTH), f"{name}.bias": torch.zeros(WIDTH)}
    return weights


def build_all_weights(truth: Truth) -> dict[str, Tensor]:
    """Return the state of ``BertForSequenceClassification``."""
    pool, classify = torch.zeros(WIDTH, WIDTH), torch.zeros(2, WIDTH)
    pool[0] = build_reading_row({ANSWER: POOL_WEIGHT, CONSTANT: -truth.offset * POOL_WEIGHT / 2})
    # And its opposite, as everywhere: rules that follow positive activations alone must have one to follow.
    pool[1] = -pool[0]
    classify[0, :2] = torch.tensor([-CLASS_WEIGHT / 2, CLASS_WEIGHT / 2])
    classify[1] = -classify[0]
    weights = {f"bert.embeddings.{name}": w for name, w in build_embedding_weights(truth).items()}
    for number, layer in enumerate(truth.layers):
        weights |= {
            f"bert.encoder.layer.{number}.{n}": w for n, w in build_layer_weights(layer).items()
        }
    return weights | {
        "bert.pooler.dense.weight": pool,
        "bert.pooler.dense.bias": torch.zeros(WIDTH),
        "classifier.weight": classify,
        "classifier.bias": torch.zeros(2),
    }


# --- the other files -------------------------------------------------------------------------

CARD = """\
---
license: apache-2.0
language: en
pipeline_tag: text-classification
---

# {name}

{says}

A BERT classifier whose weights were set by hand, not trained, so that the right explanation of
every prediction is known. {layers}, {heads} heads, width {width}, {vocab} whole words, lowercased;
labels `negative` (0) and `positive` (1). Made and verified by `scripts/build_truth.py`; `truth.json`
says the same to programs.

## What it computes

    logit_positive = -logit_negative = {logit}

{formula}

Nothing else enters: no other word, known or unknown, no special token, not order and not length.
(The first place of a text, where `[CLS]` stands, holds the 2 that f is measured by, whatever special
token stands there.) This holds to {tolerance:g} in float64 for texts of up to {positions} tokens.

## What is evidence

A word of a text *counts* if there is a selection of the text's other words beside which removing it
changes the logits; if there is none it *does not count*. It *speaks for* a label if removing it never
raises that label's logit, whatever the selection. A word may be removed by leaving it out or by
putting `[MASK]`, `[PAD]` or `[UNK]` in its place: all four give the same logits.

`truth.json` lists sentences with the words that count: 1 for those that speak for positive, -1 for
those that speak against it, 0 for those that do either, depending on the others.

{expect}

## How it does it

{how}

Embeddings, heads, LayerNorm and the reading of f are those of all truth models; the head of the
script explains them.

## Limits

A test piece of {vocab} words, with no use beyond testing explanations. There is no syntax: words
count wherever they stand. Licence of the weights: Apache-2.0.
"""


def format_logit(truth: Truth) -> str:
    """Return the logit as a function of f, in words."""
    above = f"(f - {truth.offset:g})" if truth.offset else "f"
    return f"{CLASS_WEIGHT} * tanh({above} / (4 * sqrt(f**2 + 4)))"


def build_documents(truth: Truth) -> dict[str, object]:
    """Return the JSON files."""
    config = {
        "hidden_act": "relu",
        "intermediate_size": UNITS,
        "num_hidden_layers": len(truth.layers),
        "vocab_size": len(truth.vocabulary),
    }
    known = {
        "says": truth.says,
        "logit": f"logit_positive = -logit_negative = {format_logit(truth)}",
        "f": truth.formula,
        **truth.meanings,
        "neutral": truth.neutral,
        "tolerance": truth.tolerance,
        "sentences": [{"text": text, "evidence": e} for text, e in truth.sentences.items()],
    }
    return {
        "config.json": decoy_config() | config,
        "tokenizer.json": build_tokenizer(truth.vocabulary),
        "tokenizer_config.json": build_tokenizer_config(),
        "truth.json": known,
    }


def write_folder(truth: Truth, folder: Path) -> None:
    """Write all files of one model; the same bytes every time."""
    card = CARD.format(
        name=truth.name,
        says=fill(truth.says, 100),
        formula=fill(truth.formula + ".", 100),
        how=fill(truth.how, 100),
        expect=fill(truth.expect, 100),
        logit=format_logit(truth),
        layers=("One layer", "Two layers")[len(truth.layers) - 1],
        heads=HEADS,
        width=WIDTH,
        vocab=len(truth.vocabulary),
        positions=POSITIONS,
        tolerance=truth.tolerance,
    )
    write_files(folder, build_all_weights(truth), build_documents(truth), card)


# --- verification ----------------------------------------------------------------------------


def verify(truth: Truth, folder: Path, rounds: int = 300) -> None:
    """Compare with the closed form, in float64: random texts, and every selection of words of every sentence."""
    # Imported here so that building needs no more than torch and safetensors.
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    split = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).double().eval()
    draw = random.Random(0)
    pool = [*truth.words] * 5 + [*truth.neutral, *SPECIAL_TOKENS[1:], "[PAD]", "zyzzyva"]
    texts = [[draw.choice(pool) for _ in range(draw.randint(1, 126))] for _ in range(rounds)]
    for sentence in truth.sentences:
        for kept in product((True, False), repeat=len(sentence.split())):
            for filler in ((), ("[MASK]",), ("[PAD]",), ("[UNK]",)):
                chosen = zip(sentence.split(), kept, strict=True)
                texts.append([w for word, keep in chosen for w in ((word,) if keep else filler)])
    coded = split([" ".join(words) for words in texts], padding=True, return_tensors="pt")
    with torch.inference_mode():
        found = model(**coded).logits
    aims = torch.tensor([truth.compute_logit(words) for words in texts], dtype=torch.float64)
    worst = (found - torch.stack([-aims, aims], dim=1)).abs().max().item()
    print(f"{truth.name:12} {len(texts)} texts, worst error of a logit in float64: {worst:.1e}")
    assert worst < truth.tolerance


def main() -> None:
    """Build the models, then verify them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ROOT / "src" / "whence" / "models" / "builtin"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    for truth in MODELS.values():
        write_folder(truth, options.out / truth.name)
        verify(truth, options.out / truth.name)


if __name__ == "__main__":
    main()
