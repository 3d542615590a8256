"""What generating returns: an answer, and for each part of it how much each piece of the prompt counted."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from whence.core.errors import BadParameter
from whence.core.types import Token, Word
from whence.data import Encoded
from whence.data.text.pieces import Granularity, Piece, Span, check, pieces
from whence.data.text.words import words_of
from whence.explainer.explanation import Explanation
from whence.explainer.kept.scaling import scale_for
from whence.explainer.verify.again import in_units
from whence.report.shown import VERSION, Stored
from whence.view.scale import Scale

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Generation(Stored):
    """An answer, token by token, and what each of them came from."""

    _made: tuple[Explanation, ...] = field(default=(), repr=False)

    _report: ClassVar[str] = "generation"
    _kind: ClassVar[str] = "generation"

    @property
    def text(self) -> str | None:
        """What the model said; None where there is no tokenizer to write it."""
        said = self.payload["text"]
        return None if said is None else str(said)

    @property
    def prompt_tokens(self) -> tuple[Token, ...]:
        """The tokens of the prompt, special ones included."""
        return tuple(Token(**token) for token in self.payload["tokens"])

    @property
    def output_tokens(self) -> tuple[Token, ...]:
        """The tokens of the answer, with the one that ended it."""
        return tuple(Token(**token) for token in self.payload["output_tokens"])

    @property
    def pieces(self) -> list[dict[str, Any]]:
        """The pieces of the prompt, with the sum of their scores, the share of all that is, and what chance gives."""
        return [dict(piece) for piece in self.payload["pieces"]]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The parts of the answer: its tokens, or its words at that granularity."""
        return [dict(output) for output in self.payload["outputs"]]

    @property
    def matrix(self) -> Numbers:
        """The score of each piece of the prompt for each part of the answer, (outputs, pieces)."""
        return np.array(self.payload["matrix"], dtype=np.float64)

    @property
    def earlier(self) -> Numbers:
        """The score of what was said before for each part of the answer, (outputs, outputs)."""
        return np.array(self.payload["earlier"], dtype=np.float64)

    @property
    def total(self) -> Numbers:
        """The sum over the answer, for each piece of the prompt."""
        return np.array(self.payload["total"], dtype=np.float64)

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """One explanation for each token of the answer, of all that came before it."""
        count = len(self.payload["explanations"])
        return self._made or tuple(_explanation(self.payload, k) for k in range(count))

    def by(self, granularity: Granularity) -> "Generation":
        """Return the same by other pieces; passages only where the prompt had some marked."""
        return Generation(pieced(self.payload, granularity), self._made)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote as JSON."""
        return cls.read(path)

    def __repr__(self) -> str:
        setting = f"{self.payload['method']} by {self.payload['granularity']}"
        return f"<Generation {self.text!r}, {len(self.payload['output_tokens'])} tokens, {setting}>"


def laid_out(
    explanations: Sequence[Explanation],
    start: Encoded,
    outputs: Sequence[Token],
    text: str | None,
    *,
    granularity: Granularity,
    marks: Sequence[Span],
    steps: int,
    contrast: bool,
) -> dict[str, Any]:
    """Return the documented JSON object; `steps` is how often the model was run to know its answer."""
    first = explanations[0]
    base = first.to_dict()
    passes = [one.passes for one in explanations]
    payload = {
        "version": VERSION,
        "kind": "generation",
        "model": base["model"],
        "input": asdict(start.source),
        "tokens": [asdict(token) for token in start.tokens],
        "words": [{**asdict(word), "tokens": list(word.tokens)} for word in start.words],
        "passages": [list(span) for span in marks],
        "text": text,
        "output_tokens": [asdict(token) for token in outputs],
        "method": first.method,
        "params": dict(first.params),
        "signed": first.signed,
        "words_by": first.words_by,
        "of": first.target.of,
        "contrast": contrast,
        "explanations": [_entry(one) for one in explanations],
        "dtype": str(first.scores.dtype),
        "passes": {
            "decode": steps,
            "forward": sum(one.forward for one in passes),
            "backward": sum(one.backward for one in passes),
        },
        "seconds": sum(one.seconds for one in explanations),
        "provenance": base["provenance"],
        **_warnings(explanations),
    }
    return pieced(payload, granularity)


def _warnings(explanations: Sequence[Explanation]) -> dict[str, Any]:
    """Return what must be known first: of each kind, what is said with the first token that it is true of."""
    said: dict[str, str] = {}
    for one in explanations:
        said = {**dict(one.warnings), **said}
    return {"warnings": [{"code": c, "message": m} for c, m in said.items()]} if said else {}


def pieced(payload: Mapping[str, Any], granularity: Granularity) -> dict[str, Any]:
    """Return the object with the scores of its tokens added up by piece and by part of the answer."""
    check(granularity)
    if granularity == "passage" and not payload["passages"]:
        raise BadParameter(
            "No passages were marked in this prompt. Mark them as [[...]] and generate with granularity='passage', "
            "or take sentence or paragraph."
        )
    tokens = [Token(**token) for token in payload["tokens"]]
    outputs = [Token(**token) for token in payload["output_tokens"]]
    words = [Word(**{**word, "tokens": tuple(word["tokens"])}) for word in payload["words"]]
    texts = (payload["input"]["text"], None)
    found = pieces(tokens, words, texts, granularity, [(a, b) for a, b in payload["passages"]])
    parts = _parts(outputs, payload["text"], granularity)
    every = np.zeros((len(outputs), len(tokens) + len(outputs)))
    for row, one in enumerate(payload["explanations"]):
        own = np.array(one["scores"])
        if granularity == "word" and "word_scores" in one:
            said = _words_before(payload, row)
            own = in_units(own, [word.tokens for word in (*words, *said)], one["word_scores"])
        every[row, : len(own)] = own
    by_part = np.array([every[list(part.tokens)].sum(0) for part in parts])
    matrix = np.stack([by_part[:, list(piece.tokens)].sum(1) for piece in found], axis=1)
    before = [[len(tokens) + token for token in part.tokens] for part in parts]
    earlier = np.stack([by_part[:, columns].sum(1) for columns in before], axis=1)
    chosen = [_probability(one) for one in payload["explanations"]]
    inner = [not piece.special for piece in found]
    return {
        **payload,
        "granularity": granularity,
        "pieces": _weighed(found, every, matrix.sum(0)),
        "outputs": [
            {
                "text": part.text,
                "special": part.special,
                "tokens": list(part.tokens),
                "probability": float(np.prod([chosen[token] for token in part.tokens])),
            }
            for part in parts
        ],
        "matrix": matrix.tolist(),
        "earlier": earlier.tolist(),
        "total": matrix.sum(0).tolist(),
        "scale": _scale(payload, matrix[:, inner]),
        "total_scale": _scale(payload, matrix.sum(0)[inner]),
    }


def _scale(payload: Mapping[str, Any], scores: Numbers) -> Scale:
    """Return the scale of some cells of the matrix, those of special tokens left out."""
    return scale_for(
        payload["method"],
        payload["params"],
        scores.ravel().tolist(),
        count=scores.shape[-1],
        signed=True,  # from 0, whatever the method: most cells of a matrix are near it
        of=payload["of"],
        is_value=False,
        part="piece",
    )


def _weighed(found: Sequence[Piece], every: Numbers, total: Numbers) -> list[dict[str, Any]]:
    """Describe the pieces: which part of the size of all scores fell on each, and which would by its length alone."""
    sizes = np.abs(every).sum(0)
    inner = [token for piece in found if not piece.special for token in piece.tokens]
    whole = float(sizes[inner].sum())
    described = []
    for piece, summed in zip(found, total, strict=True):
        share = chance = None
        if not piece.special:
            share = float(sizes[list(piece.tokens)].sum()) / whole if whole else None
            chance = len(piece.tokens) / len(inner)
        facts = {**asdict(piece), "tokens": list(piece.tokens)}
        described.append({**facts, "total": float(summed), "share": share, "chance": chance})
    return described


def _parts(outputs: Sequence[Token], text: str | None, granularity: Granularity) -> list[Piece]:
    """Return the parts of the answer: its tokens, or its words where the prompt goes by words."""
    words = words_of(text, 1, _said(outputs)) if granularity == "word" and text is not None else []
    parts = [Piece(word.text, word.start, word.end, 1, word.tokens) for word in words]
    joined = {token for part in parts for token in part.tokens}
    parts += [
        Piece(token.text, token.start, token.end, 1, (i,), token.special)
        for i, token in enumerate(outputs)
        if i not in joined
    ]
    return sorted(parts, key=lambda part: part.tokens)


def _said(outputs: Sequence[Token], shift: int = 0) -> list[tuple[int, Token]]:
    return [(i + shift, token) for i, token in enumerate(outputs) if not token.special]


def _entry(explanation: Explanation) -> dict[str, Any]:
    """Describe one explanation, without the tokens: they are those of the prompt and the answer."""
    said = explanation.prediction
    return {
        "target": asdict(explanation.target),
        "prediction": {**asdict(said), "logits": list(said.logits)},
        "scores": explanation.scores.tolist(),
        **(
            {}
            if explanation.words_by == "sum"
            else {"word_scores": explanation.word_scores.tolist()}
        ),
        "scale": explanation.to_dict()["explanations"][0]["scale"],
        "axioms": dict(explanation.axioms),
        "passes": asdict(explanation.passes),
        "seconds": explanation.seconds,
    }


def _probability(entry: Mapping[str, Any]) -> float:
    """Return the probability that the model gave to the token it said, the first of its columns."""
    return float(entry["prediction"]["probabilities"][entry["target"]["label"]])


def _text_before(payload: Mapping[str, Any], row: int) -> str | None:
    """Return what of the answer was said before its token of this number."""
    said = [Token(**token) for token in payload["output_tokens"][:row]]
    text: str | None = payload["text"]
    return text[: max(token.end or 0 for token in said)] if said and text is not None else None


def _words_before(payload: Mapping[str, Any], row: int) -> list[Word]:
    """Return the words of what was said before a token of the answer, with their places behind the prompt."""
    text = _text_before(payload, row)
    said = [Token(**token) for token in payload["output_tokens"][:row]]
    return [] if text is None else words_of(text, 1, _said(said, len(payload["tokens"])))


def _explanation(payload: Mapping[str, Any], row: int) -> Explanation:
    """Make the explanation of one output token again, from a file."""
    entry = payload["explanations"][row]
    before = payload["output_tokens"][:row]
    pair = _text_before(payload, row)
    shift = len(payload["tokens"])
    words = _words_before(payload, row)
    own = {
        **{name: entry[name] for name in ("scores", "axioms", "passes", "seconds")},
        **({"word_scores": entry["word_scores"]} if "word_scores" in entry else {}),
        "words_by": payload.get("words_by", "sum"),
        **{name: payload[name] for name in ("method", "params", "signed", "dtype")},
    }
    return Explanation.from_dict(
        {
            "version": payload["version"],
            "model": payload["model"],
            "input": {**payload["input"], "pair": pair},
            "tokens": [*payload["tokens"], *before],
            "words": [*payload["words"], *({**asdict(w), "tokens": list(w.tokens)} for w in words)],
            "prediction": entry["prediction"],
            "target": entry["target"],
            "read": [shift + row - 1],
            "explanations": [own],
            "provenance": payload["provenance"],
            "warnings": payload.get("warnings", []),
        }
    )


"""What a language model goes on with, and why."""


"""What a language model goes on with, and why: every token of its answer explained by all that came before it.

The model generates once, by its own `generate` and with its keys and values kept. What it thought of every token on
the way is known then, so that each explained token takes the passes of its method and no other.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from whence.capture import TargetSpec
from whence.capture.asking.decode import foretold, greedy
from whence.core.errors import BadEncoding, BadParameter, NoHead, TooLong
from whence.core.types import Of, Token
from whence.data import Encoded, batches
from whence.data.text.continuation import grown
from whence.data.text.pieces import Granularity, Span, check, unmarked
from whence.data.text.spoken import spoken
from whence.data.text.vocabulary import Vocabulary
from whence.explainer.aims.next import Answers, begun, columns, read_at_end
from whence.explainer.explanation import Explanation
from whence.explainer.generation.generation import Generation, laid_out
from whence.explainer.intake import take, warn_of_unknown
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.work import Progress, Tally
from whence.models import Loaded

MOST = 1000  # tokens of one answer


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    tokens: int
    answer: str | None
    granularity: Granularity
    of: Of
    contrast: bool
    truncate: bool

    def __post_init__(self) -> None:
        check(self.granularity)
        if (
            isinstance(self.tokens, bool)
            or not isinstance(self.tokens, int)
            or not 1 <= self.tokens <= MOST
        ):
            raise BadParameter(
                f"tokens must be a whole number from 1 to {MOST}. Got {self.tokens!r}."
            )


def generated(
    maker: Maker,
    prompt: Any,
    wanted: Wanted,
    *,
    method: str | None,
    params: Mapping[str, Any] | None,
    batch_size: int,
    progress: Progress | None,
) -> Generation:
    """Let the model go on from a prompt, or take the answer given, and explain every token of it."""
    started = time.perf_counter()
    maker.require_head()
    spec = TargetSpec(0, 1 if wanted.contrast else None, wanted.of)
    loaded, sharing = maker.loaded, maker.sharing
    if loaded.task not in ("next", "sequence"):
        raise NoHead(
            f"{loaded.name!r} is a {type(loaded.model).__name__}: it does not generate. Load a model ...ForCausalLM "
            "or ...ForConditionalGeneration, or explain its prediction: explain(...)."
        )
    asked = requests(maker.method(reads=True) if method is None else method, params, loaded.fillers)
    if len(asked) != 1:
        raise BadParameter(f"generate takes one method at a time. Got {method!r}.")
    prompt, marks = _marked(prompt, wanted.granularity)
    items, single = take(prompt, _with_room(loaded, wanted), truncate=wanted.truncate)
    if not single:
        raise BadEncoding(
            f"generate takes one prompt at a time. Got {len(items)}: call it for each."
        )
    warn_of_unknown(items, loaded)
    start = begun(items[0], loaded)
    start, outputs, text, logits, steps = _spoken(loaded, start, wanted)
    words = Vocabulary(loaded.tokenizer, loaded.vocabulary)
    ready = [
        read_at_end(prefix, columns(row, [token.id]), words)
        for prefix, token, row in zip(prefixes(start, outputs, text), outputs, logits, strict=True)
    ]
    tally = Tally(progress, ready, asked)
    policy = sharing.policy(ready, batch_size, asks=not asked[0].reads)
    policy = sharing.small_enough(policy, ready, asked)
    facts = maker.facts()
    found: dict[int, Explanation] = {}
    for chosen in batches(ready, policy):
        some = maker.explain(
            [ready[i] for i in chosen], asked, spec=spec, policy=policy, facts=facts, tally=tally
        )
        found |= {i: one[asked[0].name] for i, one in zip(chosen, some, strict=True)}
    explanations = [found[i] for i in range(len(ready))]
    payload = laid_out(
        explanations,
        start,
        outputs,
        text,
        granularity=wanted.granularity,
        marks=marks,
        steps=steps,
        contrast=wanted.contrast,
    )
    # Given an answer, it is that; else fewer tokens than asked for are those that there was room for, or an end.
    taken = (len(start.answer) or len(start)) + len(outputs)
    short = wanted.answer is None and len(outputs) < wanted.tokens
    payload["full"] = short and taken == loaded.max_length
    payload["seconds"] = time.perf_counter() - started
    return Generation(payload, tuple(explanations))


def _with_room(loaded: Loaded, wanted: Wanted) -> Loaded:
    """Return the model as one that takes shorter inputs, where a prompt may be cut: there must be room to go on."""
    whole = wanted.answer is not None or not wanted.truncate
    if whole or loaded.max_length is None or loaded.task == "sequence":
        return loaded
    return replace(loaded, max_length=max(1, loaded.max_length - wanted.tokens))


def prefixes(start: Encoded, outputs: Sequence[Token], text: str | None) -> list[Encoded]:
    """Return what stands before each of the output tokens."""
    found = []
    for count in range(len(outputs)):
        before = outputs[:count]
        end = max((token.end or 0 for token in before), default=0)
        found.append(grown(start, before, None if text is None or not count else text[:end]))
    return found


def _marked(prompt: Any, granularity: Granularity) -> tuple[Any, tuple[Span, ...]]:
    if granularity != "passage":
        return prompt, ()
    if not isinstance(prompt, str):
        raise BadEncoding(
            "granularity='passage' takes a text in which passages are marked: [[a passage]]. Got a "
            f"{type(prompt).__name__}; give a text."
        )
    return unmarked(prompt)


def _spoken(
    loaded: Loaded, start: Encoded, wanted: Wanted
) -> tuple[Encoded, tuple[Token, ...], str | None, torch.Tensor, int]:
    """Return the prompt, the output tokens, their text, the logits before each, and the forward passes that took."""
    where: dict[str, Any] = {"pad_id": loaded.pad_id, "device": loaded.device}
    if wanted.answer is not None:
        answers = Answers(loaded, [start], wanted.truncate)
        outputs, text = answers.tokens(0, wanted.answer)
        whole = answers.joined(0, outputs, text)
        logits = foretold(loaded.model, whole, len(outputs), **where)
        return answers.starts[0], outputs, text, logits, 1 + answers.forwards
    longest = loaded.max_length
    room = wanted.tokens if longest is None else longest - (len(start.answer) or len(start))
    if room < 1:
        raise TooLong(
            f"The prompt has {len(start)} tokens and {loaded.limit}: there is no room for an answer. Shorten "
            "the prompt."
        )
    ids, logits = greedy(loaded.model, start, min(wanted.tokens, room), **where)
    before = None if start.answer else start.ids[-1]
    outputs, said = spoken(ids, before, loaded.tokenizer)
    return start, outputs, said, logits, len(ids)
