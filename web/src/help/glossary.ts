/** Texts of the help page: reading guide and glossary. */

/** Term of the glossary. */
export interface Term {
  readonly term: string;
  readonly meaning: string;
}

/** Guide to reading the pictures. */
export const GUIDE: readonly { readonly title: string; readonly text: string }[] = [
  {
    title: "Begin with the text.",
    text:
      "Its words are tinted by a method's scores: blue speaks for the answer, vermillion against it. Methods differ, " +
      "so stack up to four and read how far they agree, beside what two random rankings have in common.",
  },
  {
    title: "Attention is not importance until tested.",
    text:
      "A head that looks at a word need not use it, and much attention rests on tokens that say nothing. What the flow view draws " +
      "is where a model looked. Whether the answer depends on it is another question, with a test of its own.",
  },
  {
    title: "Read coverage, not a threshold.",
    text:
      "The edges shown are the smallest set that carries a given share of what edges carry, so that two inputs, two layouts or two " +
      "models are cut alike. What ends on special tokens and what skips a layer is shown as a figure and never hidden.",
  },
  {
    title: "Verify the path.",
    text:
      "Cut the edges that are shown and see what becomes of the answer, beside random sets of as many edges. A path that " +
      "changes no more than random ones is a picture, not a reason.",
  },
  {
    title: "Ask for the trust card.",
    text:
      "It tests an explanation on this very input: each test has a verdict, a figure, and what explanations get that know " +
      "nothing. Not tested is a verdict too, and says why.",
  },
  {
    title: "One input is an anecdote.",
    text:
      "The data set page and a comparison over a data set give means with n and a 95% interval. Below five observations " +
      "there is no interval, and a difference whose interval includes zero is no finding.",
  },
];

/** Terms and their meanings. */
export const GLOSSARY: readonly Term[] = [
  {
    term: "Agreement",
    meaning:
      "Kendall's tau-b of two methods' scores of the words, and the share of their strongest words they have in common.",
  },
  {
    term: "Chance",
    meaning:
      "What random edges, rankings or explanations get on the same input. A score means little without it.",
  },
  {
    term: "Coverage",
    meaning:
      "What the shown edges carry, as a share of what is carried by all edges that may be shown: those that the filters let through, " +
      "without special tokens unless these are drawn. They are the fewest that do. How much of the unit that is stands under the flow.",
  },
  {
    term: "Decision",
    meaning:
      "The row of the last layer that the prediction reads: the class token, the last token, or the mean of all.",
  },
  { term: "Edge", meaning: "One head's attention from a token above a layer to a token below it." },
  {
    term: "Entropy",
    meaning:
      "How widely a head spreads its attention, as a share of the most there can be: 0 is one token, 1 alike to all tokens that it can see.",
  },
  {
    term: "Flow",
    meaning:
      "What arrives when one unit sets out from the decision (or a word) and divides at every layer by the edges' weights. Every " +
      "share of it is a share of that unit: a flow of 0.109 is 10.9%. It passes each layer once, by edges or past it, so that " +
      "shares add up within a layer and not over layers.",
  },
  { term: "Head", meaning: "One of the attention maps a layer computes side by side." },
  {
    term: "Interval",
    meaning:
      "Where the mean lies with 95% confidence, were other examples drawn; the more there are, the narrower.",
  },
  {
    term: "Jaccard index",
    meaning:
      "Edges that both models' sets have, divided by edges that either has: 1 is the same set, 0 nothing in common.",
  },
  {
    term: "Jensen-Shannon divergence",
    meaning: "How far two attention rows are apart, in bits: 0 is equal, 1 is nothing in common.",
  },
  {
    term: "Residual",
    meaning: "What goes past a layer by the skip connection, from a token to itself, without attention.",
  },
  { term: "Segment", meaning: "The first (A) or second (B) text of a pair." },
  {
    term: "Special token",
    meaning:
      "One that the tokenizer adds, such as [CLS] or [SEP]. Much attention ends there; it is shown as mass at the margin.",
  },
  {
    term: "Surprise",
    meaning:
      "Minus log2 of the probability the model gave the true label: 1 bit is a coin toss, much more is a mistake made with confidence.",
  },
  { term: "Target", meaning: "The output that is explained; the predicted label unless another is chosen." },
];
