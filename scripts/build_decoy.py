"""Builder of ``decoy``, a BERT classifier with weights set by hand: writes its folder, verifies its claims.

The logits depend on the evidence words alone, through the sum S of their strengths, while the word
``decoy`` takes most of the attention of every row, in every head of both layers, and carries
nothing. Whoever explains this model by its attention names the decoy, and is wrong.

How it works, in the order of the forward pass (pairs of channels hold ``+v, -v``, so every mean
is zero; all embeddings have the same variance, so LayerNorm only divides by a constant):

* embeddings: the token-type vector puts the same value into a *void* pair of every token, and the
  embedding LayerNorm has weight zero there. [CLS] and [PAD] are nothing but that, and come out as
  the zero vector. Evidence words have their strength in the *signal* pair, [SEP] has a *reference*,
  the decoy has a *key*; the rest of each embedding is a pattern of the word's own that nothing reads;
* layer 1: the query is constant, the key reads the key pair, the value reads signal and reference.
  [CLS] adds nothing of its own, so it holds (S, -S, R, -R, 0, ...) / Z, and the LayerNorm that
  follows removes the softmax's denominator Z, the only thing that the other words change;
* layer 2 looks at the decoy again and moves nothing; the feed-forward blocks are zero;
* the pooler and the classifier read the signal pair of [CLS].

Usage::

    python scripts/build_decoy.py             # write the folder and verify its claims
    python scripts/build_decoy.py --out DIR   # write it elsewhere
"""

from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

import torch
from decoy_card import CARD
from safetensors.torch import save
from torch import Tensor
from word_tokenizer import SPECIAL_TOKENS, build_tokenizer

ROOT = Path(__file__).resolve().parents[1]

EVIDENCE = {
    "good": 1,
    "fine": 1,
    "great": 2,
    "moving": 2,
    "superb": 3,
    "brilliant": 3,
    "bad": -1,
    "dull": -1,
    "awful": -2,
    "boring": -2,
    "dreadful": -3,
    "terrible": -3,
}
DECOY = "decoy"
NEUTRAL_WORDS = """
the a an this that it its is was are were be has had of in on at by for from with to and or but not
very so as he she they we you i film movie story plot scene actor director acting music script
camera ending character audience one all some there here . , ! ? ' -
"""
NEUTRAL = tuple(NEUTRAL_WORDS.split())

WIDTH, HEADS, LAYERS, POSITIONS = 32, 4, 2, 128
HEAD_WIDTH = WIDTH // HEADS
# A pair p is the channels 2p and 2p + 1.
SIGNAL, REFERENCE, KEY, VOID = 0, 1, 2, 15
PATTERN = range(3, 15)
# Sum over pairs of the squared values: 64 makes the variance 2 * 64 / 32 = 4, LayerNorm's divisor
# 2, and every number up to the classifier a float32 without rounding.
SQUARES, VOID_VALUE, MARK = 64, 6, 4
REFERENCE_STRENGTH = 512
VALUE_SCALE = 0.5
# Attention logit of the decoy over all other tokens, by head. In layer 2 the key pair comes back
# from LayerNorm larger by about 1.5, which the factor undoes.
SHARPNESS = (5.5, 6.0, 6.5, 7.0)
SECOND_LAYER_FACTOR = 2 / 3
POOL_WEIGHT, CLASS_WEIGHT = 1 / 16, 1024
EPSILON = 1e-16


def build_vocabulary() -> list[str]:
    """Return all tokens in the order of their ids."""
    return [*SPECIAL_TOKENS, *EVIDENCE, DECOY, *NEUTRAL]


def compute_logit(strength: float, separators: int = 1) -> float:
    """Return the positive logit of a sum of strengths, in closed form; the negative one is its opposite."""
    reference = REFERENCE_STRENGTH * separators
    return CLASS_WEIGHT * math.tanh(strength / (4 * math.hypot(strength, reference)))


def draw_pattern(token: str, squares: int) -> list[int]:
    """Draw whole numbers for the pattern pairs by the spelling, with the given sum of squares.

    Patterns make the words differ, so that a wrong explanation has something to be wrong about.
    """
    draw = random.Random(token)
    while True:
        values = [int(draw.random() * 7) - 3 for _ in PATTERN]
        if sum(value * value for value in values) == squares:
            return values


def build_word_pairs(token: str) -> list[int]:
    """Return the value of a token's word embedding in every pair."""
    pairs = [0] * (WIDTH // 2)
    if token in ("[CLS]", "[PAD]"):
        return pairs
    pairs[SIGNAL] = EVIDENCE.get(token, 0)
    pairs[REFERENCE] = MARK if token == "[SEP]" else 0
    pairs[KEY] = MARK if token == DECOY else 0
    left = SQUARES - VOID_VALUE**2 - sum(value * value for value in pairs)
    pairs[PATTERN.start : PATTERN.stop] = draw_pattern(token, left)
    return pairs


def unfold(pairs: list[int]) -> list[float]:
    """Return channels from pairs: each value and its opposite."""
    return [float(sign * value) for value in pairs for sign in (1, -1)]


def build_pair_reader(pair: int, scale: float) -> Tensor:
    """Return a row of weights that gives ``scale`` times the value of a pair."""
    row = torch.zeros(WIDTH)
    row[2 * pair], row[2 * pair + 1] = scale / 2, -scale / 2
    return row


def build_embedding_weights() -> dict[str, Tensor]:
    """Return word, position and type tables, and a LayerNorm that drops the void pair."""
    void = [0] * (WIDTH // 2)
    void[VOID] = VOID_VALUE
    keep = torch.ones(WIDTH)
    keep[2 * VOID : 2 * VOID + 2] = 0
    return {
        "word_embeddings.weight": torch.tensor(
            [unfold(build_word_pairs(t)) for t in build_vocabulary()]
        ),
        "position_embeddings.weight": torch.zeros(POSITIONS, WIDTH),
        "token_type_embeddings.weight": torch.tensor([unfold(void)] * 2),
        "LayerNorm.weight": keep,
        "LayerNorm.bias": torch.zeros(WIDTH),
    }


def build_attention_weights(layer: int) -> dict[str, Tensor]:
    """Return query, key, value and output of one layer; only the first layer moves anything."""
    query, key = torch.zeros(WIDTH), torch.zeros(WIDTH, WIDTH)
    value, output = torch.zeros(WIDTH, WIDTH), torch.zeros(WIDTH, WIDTH)
    factor = SECOND_LAYER_FACTOR if layer else 1.0
    for head, sharpness in enumerate(SHARPNESS):
        first = head * HEAD_WIDTH
        query[first] = 1.0
        # After the embedding LayerNorm a mark of 4 is worth 2.
        key[first] = build_pair_reader(KEY, factor * sharpness * math.sqrt(HEAD_WIDTH) / 2)
        if layer == 0:
            for place, (pair, scale) in enumerate(
                ((SIGNAL, 2 * VALUE_SCALE), (REFERENCE, VALUE_SCALE * REFERENCE_STRENGTH / 2))
            ):
                value[first + 2 * place] = build_pair_reader(pair, scale)
                value[first + 2 * place + 1] = -value[first + 2 * place]
                for side in (0, 1):
                    output[2 * pair + side, first + 2 * place + side] = 1 / HEADS
    return {
        "attention.self.query.weight": torch.zeros(WIDTH, WIDTH),
        "attention.self.query.bias": query,
        "attention.self.key.weight": key,
        "attention.self.key.bias": torch.zeros(WIDTH),
        "attention.self.value.weight": value,
        "attention.self.value.bias": torch.zeros(WIDTH),
        "attention.output.dense.weight": output,
        "attention.output.dense.bias": torch.zeros(WIDTH),
    }


def build_layer_weights(layer: int) -> dict[str, Tensor]:
    """Return one encoder layer: attention, plain LayerNorms, and a feed-forward block of zeros."""
    ones, zeros = torch.ones(WIDTH), torch.zeros(WIDTH)
    return build_attention_weights(layer) | {
        "attention.output.LayerNorm.weight": ones.clone(),
        "attention.output.LayerNorm.bias": zeros.clone(),
        "intermediate.dense.weight": torch.zeros(WIDTH, WIDTH),
        "intermediate.dense.bias": zeros.clone(),
        "output.dense.weight": torch.zeros(WIDTH, WIDTH),
        "output.dense.bias": zeros.clone(),
        "output.LayerNorm.weight": ones.clone(),
        "output.LayerNorm.bias": zeros.clone(),
    }


def build_all_weights() -> dict[str, Tensor]:
    """Return the state of ``BertForSequenceClassification``."""
    pool, classify = torch.zeros(WIDTH, WIDTH), torch.zeros(2, WIDTH)
    pool[0] = build_pair_reader(SIGNAL, POOL_WEIGHT)
    classify[0, 0], classify[1, 0] = -CLASS_WEIGHT, CLASS_WEIGHT
    weights = {f"bert.embeddings.{name}": w for name, w in build_embedding_weights().items()}
    for layer in range(LAYERS):
        weights |= {
            f"bert.encoder.layer.{layer}.{n}": w for n, w in build_layer_weights(layer).items()
        }
    return weights | {
        "bert.pooler.dense.weight": pool,
        "bert.pooler.dense.bias": torch.zeros(WIDTH),
        "classifier.weight": classify,
        "classifier.bias": torch.zeros(2),
    }


def build_config() -> dict[str, object]:
    """Return ``config.json``, written out so that it is the same under every version of the libraries."""
    return {
        "architectures": ["BertForSequenceClassification"],
        "attention_probs_dropout_prob": 0.0,
        "dtype": "float32",
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "hidden_size": WIDTH,
        "id2label": {"0": "negative", "1": "positive"},
        "intermediate_size": WIDTH,
        "label2id": {"negative": 0, "positive": 1},
        "layer_norm_eps": EPSILON,
        "max_position_embeddings": POSITIONS,
        "model_type": "bert",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": len(build_vocabulary()),
    }


def build_tokenizer_config() -> dict[str, object]:
    """Return ``tokenizer_config.json``."""
    return {
        "cls_token": "[CLS]",
        "do_lower_case": True,
        "mask_token": "[MASK]",
        "model_max_length": POSITIONS,
        "pad_token": "[PAD]",
        "sep_token": "[SEP]",
        "tokenizer_class": "BertTokenizer",
        "unk_token": "[UNK]",
    }


def build_truth_document() -> dict[str, object]:
    """Return ``truth.json``, the true attribution for programs."""
    reference = REFERENCE_STRENGTH
    return {
        "evidence": EVIDENCE,
        "decoy": DECOY,
        "neutral": list(NEUTRAL),
        "reference": "[SEP]",
        "reference_strength": reference,
        "logit": (
            f"logit_positive = -logit_negative = {CLASS_WEIGHT} * "
            f"tanh(S / (4 * sqrt(S**2 + (n * {reference})**2))), "
            "S = sum of the evidence strengths, n = number of [SEP] tokens; "
            "for n = 1 logit_positive - logit_negative is S within 0.2% for |S| <= 30"
        ),
    }


def render_card() -> str:
    """Return ``README.md``."""
    by_strength: dict[int, list[str]] = {}
    for word, strength in EVIDENCE.items():
        by_strength.setdefault(strength, []).append(f"`{word}`")
    rows = [f"| {s:+d} | {', '.join(by_strength[s])} |" for s in sorted(by_strength, reverse=True)]
    return CARD.format(
        decoy=DECOY,
        layers=LAYERS,
        heads=HEADS,
        width=WIDTH,
        vocab=len(build_vocabulary()),
        evidence="\n".join(rows),
        reference=REFERENCE_STRENGTH,
        gain=CLASS_WEIGHT,
        sharpness=", ".join(f"{c:g}" for c in SHARPNESS),
        epsilon=EPSILON,
    )


def write_files(
    folder: Path, weights: dict[str, Tensor], documents: dict[str, object], readme: str
) -> None:
    """Write the weights, the JSON documents and the card; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.contiguous() for name, weight in weights.items()}
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    for name, document in documents.items():
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(readme, encoding="utf-8")


def write_folder(folder: Path) -> None:
    """Write the decoy."""
    documents = {
        "config.json": build_config(),
        "tokenizer.json": build_tokenizer(build_vocabulary()),
        "tokenizer_config.json": build_tokenizer_config(),
        "truth.json": build_truth_document(),
    }
    write_files(folder, build_all_weights(), documents, render_card())


def draw_words(rng: random.Random, length: int, decoys: int) -> list[str]:
    """Draw random evidence, neutral and unknown words, with ``decoys`` decoys among them."""
    pool = [*EVIDENCE, *NEUTRAL, "[UNK]", "[MASK]", "zyzzyva"]
    words = [rng.choice(pool) for _ in range(length - decoys)] + [DECOY] * decoys
    rng.shuffle(words)
    return words


def sum_strengths(words: list[str]) -> int:
    """Return S, the sum of the evidence strengths."""
    return sum(EVIDENCE.get(word, 0) for word in words)


@dataclass
class Findings:
    """The worst deviation from every claim."""

    closed_form: float = 0.0
    linear: float = 0.0
    decoy_value: float = 0.0
    empty_value: float = 0.0
    share: list[float] = field(default_factory=lambda: [1.0] * LAYERS)


def note_logits(found: Findings, words: list[str], logits: list[float]) -> None:
    """Compare the logits with the closed form and with S itself."""
    strength = sum_strengths(words)
    aim = compute_logit(strength)
    error = max(abs(logits[1] - aim), abs(logits[0] + aim)) / max(1.0, abs(aim))
    found.closed_form = max(found.closed_form, error)
    if 0 < abs(strength) <= 30:
        found.linear = max(found.linear, abs((logits[1] - logits[0]) / strength - 1))


def verify(folder: Path, rounds: int = 300) -> Findings:
    """Run random texts in float64; print the deviations, and fail if a claim is not met."""
    # Imported here so that building needs no more than torch and safetensors.
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    split = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager")
    model.double().eval().requires_grad_(False)
    rng, found = random.Random(0), Findings()
    for _ in range(rounds):
        words = draw_words(rng, rng.randint(1, 30), decoys=1)
        coded = split(" ".join(words), return_tensors="pt")
        out = model(**coded, output_attentions=True, output_hidden_states=True)
        note_logits(found, words, out.logits[0].tolist())
        tokens = split.convert_ids_to_tokens(coded["input_ids"][0].tolist())
        place = tokens.index(DECOY)
        empty = [i for i, token in enumerate(tokens) if token not in EVIDENCE and token != "[SEP]"]
        for layer, block in enumerate(model.bert.encoder.layer):
            share = out.attentions[layer][0, :, :, place].min().item()
            found.share[layer] = min(found.share[layer], share)
            values = block.attention.self.value(out.hidden_states[layer][0]).abs()
            found.decoy_value = max(found.decoy_value, values[place].max().item())
            if layer == 0:
                found.empty_value = max(found.empty_value, values[empty].max().item())
    print_findings(found, rounds)
    assert found.closed_form < 1e-9
    assert found.linear < 2e-3
    assert found.decoy_value == found.empty_value == 0
    assert min(found.share) >= 0.8
    return found


def print_findings(found: Findings, rounds: int) -> None:
    """Print the table of verified claims."""
    print(f"{rounds} random texts of 1 to 30 words with one decoy, in float64; the worst seen:")
    print(f"  logits against the closed form, relative error      {found.closed_form:.1e}")
    print(f"  difference of logits against S, relative error      {found.linear:.1e}")
    print(f"  value vector of the decoy, both layers              {found.decoy_value:g}")
    print(f"  value vectors of [CLS], neutral words and the like  {found.empty_value:g}")
    for layer, share in enumerate(found.share, start=1):
        print(f"  attention to the decoy in layer {layer}, any head and row {share:.4f}")


def main() -> None:
    """Build the model, then verify it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ROOT / "src" / "whence" / "models" / "builtin" / "decoy"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    write_folder(options.out)
    verify(options.out)


if __name__ == "__main__":
    main()
