"""Handwritten remarks for docs/science/peers.md: each library's strengths, features whence lacks, notes."""

from __future__ import annotations

BEST = {
    "whence": "Transformers: many methods from shared passes, and tests of whether to believe them",
    "captum": "any PyTorch model and input; layers, neurons, concepts, training data; a sound base for others",
    "interpreto": "concepts and lenses beside attributions; one interface for classifiers and language models",
    "inseq": "generated text: contrasts, step scores, aggregation of spans, encoder-decoders",
    "shap": "Shapley values of any model, tables and trees too; its plots",
    "lime": "anything that maps texts to probabilities, without a look inside",
    "transformers-interpret": "the least to learn: one line for a class, an answer, a tag",
    "ferret": "several explainers and measures of faithfulness and plausibility in one table",
    "ferret 0.4.1": "the same",
    "bertviz": "seeing the attention of every head, turned and filtered by hand, in a notebook",
    "whence on generation": "the same calls as for a class",
}

CANNOT = {
    "captum": (
        "networks that are no Transformers, tables, sound; scores of layers and neurons; concepts (TCAV); "
        "the influence of training examples; DeepLift; language models behind an interface"
    ),
    "interpreto": "concepts by sparse autoencoders or factorisation, logit and tuned lens, scores of sentences",
    "inseq": (
        "attribution of every generated token under any step function, discretised and "
        "sequential integrated gradients, detection of context reliance"
    ),
    "shap": "models of any kind, exact values for trees, values of phrases, waterfall and beeswarm plots",
    "lime": "models of which only a function is known, tables",
    "transformers-interpret": "nothing that whence cannot, in fewer words",
    "ferret": "data sets with human rationales and precomputed explanations by name",
    "bertviz": "the neuron view: queries and keys, dimension by dimension",
}

NOTES = """\
- Every library is called the way its own documentation says, with its own defaults, and nothing of it is
  patched. What is not a default is said under *How each was called*.
- The libraries do not promise the same. lime explains a local fit and promises no sum; bertviz shows attention
  and gives no scores; inseq explains generated text only, so it has a language model and stands in the rows of
  generation, beside whence on the same model. A dash is not a failure.
- A library that scores pieces of text by its own tokenizer is asked for all of them, special tokens included,
  where it can.
- transformers-interpret divides its scores by their length, so that they cannot add up; their directions agree
  with the reference all the same. What inseq shows by itself is the norm over the embedding, which has no sign;
  its raw attributions, which it also gives, are judged here.
- lime gives a word one score wherever it stands; with `bow=False` it tells places apart.
- captum's Lime and KernelShap, and one method of inseq, ask for scikit-learn, which the requirements do
  not name; it was given to them. captum's LRP is written for other layers than a Transformer's, and says so.
- interpreto takes the mean of the absolute gradient at every step, as its source says: such scores have no sign and
  no sum by construction, and are another method than the one they are named after.
- bertviz's README takes the attention as `outputs[-1]`, which with today's transformers is the empty cross-attention
  of a BERT; it was given `outputs.attentions`.
- inseq's way of generating by itself decodes this model's text with its `<s>` and then misses the prompt in it;
  it was given the texts, which it takes one at a time. It writes the padding token into the model's
  configuration where there is none. On the language model 64 steps are few for both libraries: neither
  reaches the bar of completeness on every prompt.
- Methods by perturbation differ in what they do: the number of texts that went through the model stands beside
  the time.
- The newest release of ferret and an older one are both here, because the newest one does not import where pip
  puts it.
- whence was written with these findings in mind, and the ruler by its authors: the texts, thresholds and
  adapters are in `bench/peers`, short enough to read. Corrections are welcome."""
