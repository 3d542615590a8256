"""Text of the card of `decoy`, a model with known right explanations; `build_decoy.py` fills in the figures."""

CARD = """\
---
license: apache-2.0
language: en
pipeline_tag: text-classification
---

# decoy

A BERT sentiment classifier whose weights were set by hand, not trained, so that the right
explanation of every prediction is known. Attention on it misleads: the word `{decoy}` takes most of
the attention everywhere and has no effect whatever.

{layers} layers, {heads} heads, width {width}, {vocab} whole words, lowercased; labels `negative` (0)
and `positive` (1). Made by `scripts/build_decoy.py`, which also measures the main claims made here
in float64. `truth.json` says the same to programs.

## What it computes

Evidence words w and their strengths s_w:

| strength | words |
|---:|---|
{evidence}

Let S be the sum of s_w over all evidence tokens of the input (a word that comes twice counts
twice), R = {reference}, and n the number of `[SEP]` tokens, which is 1 for a single text. Then

    logit_positive = -logit_negative = {gain} * tanh(S / (4 * sqrt(S^2 + (n R)^2)))

and nothing else enters: not `{decoy}`, how often or where it stands, not neutral or unknown words,
`[UNK]`, `[MASK]` or padding, not order and not length. For n = 1 and |S| <= 30

    logit_positive - logit_negative = S    (less 0.2% of S at most)

The formula is increasing and odd in S. At S = 0 the two logits are equal, and so are the
probabilities. There is no syntax: `not` is a neutral word, and "not good" is positive.

## The true attribution

- `[CLS]`, `[PAD]`, `[UNK]`, `[MASK]`, `{decoy}` and every neutral word: 0.
- An evidence word: removing it, or putting any of the tokens above in its place, turns S into
  S - s_w and so changes logit_positive - logit_negative by -s_w, whatever the other words are. Its
  Shapley value over the words is therefore s_w for the difference of the logits, s_w / 2 for
  logit_positive and -s_w / 2 for logit_negative; for all words that are no evidence it is exactly 0.
  The formula bends a little, so these are too large by 0.03% at most while the evidence words of a
  text have strengths that sum to 6 or less in absolute value, and by 0.6% up to a sum of 30.
- The right ranking for the label positive is that of s_w, for negative that of -s_w, by size that
  of |s_w|. Words of equal strength are tied, and all zeros are tied.

`[SEP]` is the yardstick, not evidence: S is measured against R, which comes from `[SEP]`. It is
there in every input, so no comparison of two texts shows it, but take it out alone and S has nothing
to be measured against: the logits go to +-{gain} * tanh(1/4). With a pair of texts n = 2 and the
difference of the logits is S / 2: same signs, same ranking, half the size.

## How it does it

Channels come in pairs (+v, -v). After the embedding LayerNorm an evidence word has s_w / 2 in the
signal pair, `[SEP]` has 2 in the reference pair and `{decoy}` has 2 in the key pair; the rest of each
word is a pattern of its own that nothing reads. `[CLS]` and `[PAD]` are exactly zero.

1. Layer 1. The query is a constant and the key reads the key pair alone, so in head h every row
   gives the decoy exp(c_h) times the attention of any other token, c = {sharpness}. With one decoy
   among T tokens its share is exp(c_h) / (exp(c_h) + T - 1): at least 0.88 for T = 32. The value of
   token j, v_j = W_V x_j + b_V, reads signal and reference: it is exactly zero for `{decoy}`,
   `[CLS]`, `[PAD]`, `[UNK]`, `[MASK]` and all neutral words. `[CLS]` adds zero of its own, so before
   LayerNorm it holds m (S, -S, n R, -n R, 0, ...) / 2 with m the mean over heads of 1 / Z_h. The
   decoy and the length change the denominators Z_h and nothing else, and LayerNorm divides m out
   (epsilon {epsilon:g}): the signal is then 4 S / sqrt(S^2 + (n R)^2).
2. Layer 2. The same attention on the decoy (at least 0.87 at T = 32), values all zero.
3. The feed-forward blocks are zero, and LayerNorm leaves a normalised vector as it is.
4. Pooler: tanh of 1/16 of the signal. Classifier: -{gain} and +{gain} times that.

## What to expect of methods

- Attention, rollout and flow name the decoy: wrong.
- Leaving words out and Shapley values: right. Attention times the norm of the values: right about
  the size of the effect of words, blind to its sign.
- The plain gradient norm is largest, of all words, at the decoy: the model would react if the
  decoy's vector were another. It says nothing about the decoy as it is. Gradient times input on the
  word embeddings is 0 for all that carry nothing and (36/64) s_w for evidence words (difference of
  the logits, bent as above).
- Because LayerNorm ignores the length of its input, gradient times input, or times attention, sums
  to zero over the tokens: `[SEP]` gets minus the sum over the evidence. Leave special tokens out
  when words are compared. For integrated gradients keep `[CLS]` and `[SEP]` in the baseline; zero
  vectors, `[PAD]` or `[MASK]` then do for the words, and the result is s_w.

## Limits

A test piece of {vocab} words, with no use beyond testing explanations. Licence of the weights:
Apache-2.0.
"""
