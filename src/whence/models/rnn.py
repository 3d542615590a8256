"""The models of Jain & Wallace, as transformers knows models."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from whence.core.errors import BadEncoding
from whence.models.attentive.attention import Attention
from whence.models.attentive.config import AttentiveConfig
from whence.models.attentive.encoders import encoder

_IMPOSSIBLE = -1e9  # the logit of an answer that does not stand in the passage


class Decoder(nn.Module):
    """From what was attended to, and the query where there is one, to the outputs."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        half = max(1, config.width // 2)
        self.passage = nn.Linear(config.width, half) if config.query else None
        self.query = nn.Linear(config.width, half) if config.query else None
        self.output = nn.Linear(half if config.query else config.width, config.outputs)

    def forward(self, context: Tensor, query: Tensor | None) -> Tensor:
        """Return the outputs, (batch, outputs)."""
        if self.passage is not None and self.query is not None:
            context = (self.passage(context) + self.query(query)).tanh()
        outputs: Tensor = self.output(context)
        return outputs


class AttentiveForSequenceClassification(PreTrainedModel):  # type: ignore[misc]
    """An encoder, one row of attention over its states, and a decoder.

    Special tokens, padding and the query are not attended to. With two labels there is one output z, and the logits
    are -z/2 and z/2: their softmax is the authors' sigmoid of z.
    """

    config_class = AttentiveConfig
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(
            config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id
        )
        # In a list, so that they are the model's layers to whoever looks for layers: the passage's, the query's.
        self.encoders = nn.ModuleList(encoder(config) for _ in range(2 if config.query else 1))
        self.attention = Attention(config)
        self.decoder = Decoder(config)
        self.post_init()

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        """Say that its attention is its own: transformers' attention functions know no scores like these."""
        return False

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the weights what PyTorch made them; `fresh` draws them from a seed."""

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the one table of all tokens."""
        return self.embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Take another table."""
        self.embeddings = value

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Any:
        """Classify; all inputs are (batch, tokens), and token type 1 is the query."""
        config = self.config
        real = input_ids != config.pad_token_id if attention_mask is None else attention_mask.bool()
        special = (input_ids == config.bos_token_id) | (input_ids == config.eos_token_id)
        embedded = self.embeddings(input_ids)
        passage, summary = real, None
        if config.query:
            if token_type_ids is None:
                raise BadEncoding(
                    "This model takes a pair of texts, and the input has no token_type_ids to tell them apart "
                    "(0: the text that is attended to, 1: the query). Give them, or a pair (a, b) of texts."
                )
            second = token_type_ids.bool()
            passage = real & ~second
            _, summary = self.encoders[1](embedded, real & second, special)
        states, _ = self.encoders[0](embedded, passage, special)
        may = passage & ~special
        logits = self._logits(self.decoder(self.attention(states, may, summary), summary))
        if config.answers_in_passage:
            logits = self._possible(logits, input_ids, may)
        loss = None if labels is None else self._loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _logits(self, outputs: Tensor) -> Tensor:
        """Make two logits of one output, where there are two labels."""
        if outputs.shape[1] == self.config.num_labels:
            return outputs
        half = outputs / 2
        return torch.cat([-half, half], dim=1)

    def _possible(self, logits: Tensor, ids: Tensor, may: Tensor) -> Tensor:
        """Rule out the labels whose word does not stand in the passage."""
        words = torch.tensor(self.config.answer_ids, device=ids.device)
        found = ((ids[..., None] == words) & may[..., None]).any(1)
        lowest = max(_IMPOSSIBLE, torch.finfo(logits.dtype).min)
        return logits.masked_fill(~found, lowest)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits))
        if self.config.problem_type == "regression" or self.config.num_labels == 1:
            return F.mse_loss(logits.reshape(labels.shape), labels.to(logits))
        return F.cross_entropy(logits, labels)


"""The models of Jain & Wallace 2019 (arXiv:1902.10186): an encoder, one row of attention over it, a decoder.

They are models of transformers like any other: saved as safetensors and a configuration, loaded by `whence.load`.
"""

from transformers import AutoConfig, AutoModelForSequenceClassification

from whence.models.attentive.config import AttentiveConfig
from whence.models.attentive.initial import fresh
from whence.models.attentive.model import AttentiveForSequenceClassification
from whence.models.attentive.tokenizer import word_tokenizer

AutoConfig.register(AttentiveConfig.model_type, AttentiveConfig, exist_ok=True)
AutoModelForSequenceClassification.register(
    AttentiveConfig, AttentiveForSequenceClassification, exist_ok=True
)

__all__ = [
    "AttentiveConfig",
    "AttentiveForSequenceClassification",
    "fresh",
    "word_tokenizer",
]


"""Attention of one row: a weight for every token of the input, and the mean of the states by these weights."""

from math import sqrt

import torch
from torch import Tensor, nn

from whence.models.attentive.config import AttentiveConfig


class Tanh(nn.Module):
    """Additive scores (Bahdanau et al. 2015): v · tanh(W h + b), with a query v · tanh(W h + b + U q + c)."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        half = config.width // 2
        self.states = nn.Linear(config.width, half)
        self.query = nn.Linear(config.width, half) if config.query else None
        self.score = nn.Linear(half, 1, bias=False)

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        inner = self.states(states)
        if self.query is not None and query is not None:
            inner = inner + self.query(query)[:, None]
        scores: Tensor = self.score(inner.tanh())
        return scores.squeeze(-1)


class Dot(nn.Module):
    """Scaled products: with the query, or with a vector that is learnt where there is none."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.scale = 1 / sqrt(config.width)
        self.vector = None if config.query else nn.Linear(config.width, 1, bias=False)

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        if self.vector is not None:
            learnt: Tensor = self.vector(states)
            return learnt.squeeze(-1) * self.scale
        assert query is not None
        return torch.matmul(states, query[..., None]).squeeze(-1) * self.scale


class Uniform(nn.Module):
    """The same score for all."""

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        return states.new_zeros(states.shape[:2])


class Attention(nn.Module):
    """Scores, weights, and the weighted mean."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        kinds = {"tanh": Tanh, "dot": Dot}
        self.scores = kinds[config.attention](config) if config.attention in kinds else Uniform()

    def forward(self, states: Tensor, may: Tensor, query: Tensor | None) -> Tensor:
        """Return the mean of the states, (batch, width), over those that may be attended to.

        The weights of all others are exactly zero; where there are no others, so is the mean.
        """
        scores = self.scores(states, query)[:, None, None, :]  # one head, one row
        hidden = ~may[:, None, None, :]
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(hidden, lowest), dim=-1).masked_fill(hidden, 0)
        return torch.matmul(weights, states[:, None]).flatten(1)


"""What a model of Jain & Wallace is made of."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from transformers import PretrainedConfig

from whence.core.errors import BadParameter

Encoder = Literal["bilstm", "cnn", "average"]
Attention = Literal["tanh", "dot", "uniform"]


class AttentiveConfig(PretrainedConfig):  # type: ignore[misc]
    """The configuration; every value that it is given is checked."""

    model_type = "attentive"

    def __init__(
        self,
        vocab_size: int = 10_000,
        embedding_size: int = 300,
        hidden_size: int = 128,
        encoder: Encoder = "bilstm",
        attention: Attention = "tanh",
        query: bool = False,
        kernels: Sequence[int] = (1, 3, 5, 7),
        answers_in_passage: bool = False,
        answer_ids: Sequence[int] = (),
        training: Mapping[str, Any] | None = None,
        pad_token_id: int = 0,
        bos_token_id: int = 2,
        eos_token_id: int = 3,
        **others: Any,
    ) -> None:
        """Take the parts of the model.

        `hidden_size` is that of one direction of the LSTM, and of all filters of the convolutions together. `query`:
        the input is a pair, and the first text is attended to with the second in mind. `answers_in_passage`: only a
        label whose word, `answer_ids[label]`, stands in the first text can be predicted. `training` is the recipe the
        model was trained by, as plain data.
        """
        super().__init__(**others)
        self.vocab_size = _count("vocab_size", vocab_size)
        self.embedding_size = _count("embedding_size", embedding_size)
        self.hidden_size = _count("hidden_size", hidden_size)
        self.encoder = _one_of("encoder", encoder, get_args(Encoder))
        self.attention = _one_of("attention", attention, get_args(Attention))
        self.query = bool(query)
        self.kernels = tuple(_kernel(size) for size in kernels)
        self.answers_in_passage = bool(answers_in_passage)
        self.answer_ids = tuple(int(identity) for identity in answer_ids)
        self.training = dict(training or {})
        self.pad_token_id = pad_token_id
        self.bos_token_id = bos_token_id
        self.eos_token_id = eos_token_id
        self._check_parts()

    def _check_parts(self) -> None:
        if self.encoder == "cnn" and not 0 < len(self.kernels) <= self.hidden_size:
            raise BadParameter(
                f"kernels must be some widths, at most hidden_size={self.hidden_size} of them. Got {self.kernels}."
            )
        if self.width < 2 and self.attention == "tanh":
            raise BadParameter(
                f"attention='tanh' needs states of two features at least. Got hidden_size={self.hidden_size}."
            )
        if self.answers_in_passage and len(self.answer_ids) != self.num_labels:
            raise BadParameter(
                f"answers_in_passage needs answer_ids, the token id of each of the {self.num_labels} labels "
                f"(tokenizer.convert_tokens_to_ids(labels)). Got {len(self.answer_ids)} of them."
            )

    @property
    def width(self) -> int:
        """How many features the encoder gives to each token."""
        if self.encoder == "bilstm":
            return 2 * self.hidden_size
        if self.encoder == "cnn":
            return self.hidden_size // len(self.kernels) * len(self.kernels)
        return self.hidden_size

    @property
    def outputs(self) -> int:
        """How many numbers the decoder gives: one for two labels that exclude each other, as in the paper."""
        one_sigmoid = self.num_labels == 2 and self.problem_type in (
            None,
            "single_label_classification",
        )
        return 1 if one_sigmoid and not self.query else int(self.num_labels or 0)


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadParameter(f"{name} must be a whole number from 1. Got {value!r}.")
    return value


def _kernel(value: Any) -> int:
    if _count("kernels", value) % 2 == 0:
        raise BadParameter(
            f"kernels must be odd, so that a token stands in the middle. Got {value!r}."
        )
    return int(value)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadParameter(f"{name} must be one of {', '.join(allowed)}. Got {value!r}.")
    return str(value)


"""Encoders: from the embeddings of a text to a state for each token, and a summary of the whole.

Each takes embeddings, (batch, tokens, features), and where the text's tokens are, (batch, tokens). What stands in
between or around (padding, the other text of a pair) is not there to it: the states are zero at these places.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whence.models.attentive.config import AttentiveConfig

Encoding = tuple[Tensor, Tensor]  # states (batch, tokens, width), summary (batch, width)


class BiLSTM(nn.Module):
    """One layer in both directions; the summary are the two final states."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True
        )

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> Encoding:
        """Run over the text alone, whatever it is padded with."""
        order = _own_first(own)
        lengths = own.sum(1)
        packed = pack_padded_sequence(
            _at(embedded, order),
            lengths.clamp(
                min=1
            ).cpu(),  # a text of nothing is given a step, and nothing of it is kept
            batch_first=True,
            enforce_sorted=False,
        )
        states, final = self._run(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=own.shape[1])
        kept = _at(states, order.argsort(1)).masked_fill(~own[..., None], 0)
        summary = final.transpose(0, 1).reshape(len(own), -1)
        return kept, summary.masked_fill(lengths[:, None] == 0, 0)

    def _run(self, packed: Any) -> tuple[Any, Tensor]:
        # cuDNN takes gradients in training mode only. There is no dropout, so nothing else depends on it.
        training, self.lstm.training = self.lstm.training, True
        try:
            with warnings.catch_warnings():
                # It also wants all weights in one piece, which they are not while others stand in for them.
                warnings.filterwarnings("ignore", "RNN module weights are not part of single")
                states, (final, _) = self.lstm(packed)
        finally:
            self.lstm.training = training
        return states, final


class Convolutions(nn.Module):
    """Filters of several widths side by side; the summary is the largest that each of them finds."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        filters = config.hidden_size // len(config.kernels)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.embedding_size, filters, size, padding=size // 2)
            for size in config.kernels
        )

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> Encoding:
        """Look at each token and its neighbours; outside of the text there are zeros."""
        order = _own_first(own)
        text = _at(embedded.masked_fill(~own[..., None], 0), order).transpose(1, 2)
        found = torch.cat([one(text) for one in self.filters], dim=1).relu().transpose(1, 2)
        # The authors find nothing at special tokens either.
        inside = own & ~special
        states = _at(found, order.argsort(1)).masked_fill(~inside[..., None], 0)
        return states, states.amax(1)


class Average(nn.Module):
    """Every token for itself; the summary is the mean.

    Of the text's own tokens: the authors' is over padding too, and so depends on the other inputs of a batch.
    """

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.projection = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> Encoding:
        """Give each token its state, without context."""
        states = self.projection(embedded).tanh().masked_fill(~own[..., None], 0)
        return states, states.sum(1) / own.sum(1, keepdim=True).clamp(min=1)


def encoder(config: AttentiveConfig) -> nn.Module:
    """Make the encoder that a configuration names."""
    return {"bilstm": BiLSTM, "cnn": Convolutions, "average": Average}[config.encoder](config)


def _own_first(own: Tensor) -> Tensor:
    """Return an order of places, (batch, tokens), in which the text comes first and stays in its order."""
    return (~own).to(torch.uint8).argsort(dim=1, stable=True)


def _at(values: Tensor, order: Tensor) -> Tensor:
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))


"""Weights to start from: PyTorch's own distributions, drawn from a seed and from nothing else."""

from typing import Any

import numpy as np
import torch
from torch import nn

from whence.core.errors import BadParameter
from whence.core.seed import generator
from whence.models.attentive.config import AttentiveConfig
from whence.models.attentive.model import AttentiveForSequenceClassification


def fresh(
    config: AttentiveConfig, seed: int, vectors: Any = None
) -> AttentiveForSequenceClassification:
    """Make an untrained model.

    Embeddings are standard normal, or `vectors`, (vocab_size, embedding_size); padding is zero. All other weights lie
    evenly between plus and minus one over the root of how many numbers each output is a sum of.
    """
    with torch.random.fork_rng(devices=[]):  # PyTorch draws weights too, which are thrown away
        model = AttentiveForSequenceClassification(config)
    with torch.no_grad():
        for path, module in model.named_modules():
            for name, weight in module.named_parameters(recurse=False):
                drawn = generator("attentive", seed, f"{path}.{name}")
                if isinstance(module, nn.Embedding):
                    values = _vectors(config, vectors)
                    if values is None:
                        values = drawn.standard_normal(weight.shape)
                    values[config.pad_token_id] = 0
                else:
                    bound = _terms(module) ** -0.5
                    values = drawn.uniform(-bound, bound, weight.shape)
                weight.copy_(torch.from_numpy(values))
    model.eval()
    return model


def _terms(module: nn.Module) -> int:
    """Return how many numbers an output of the module is a sum of; of a recurrent one, PyTorch counts its state."""
    if isinstance(module, nn.LSTM):
        return module.hidden_size
    if isinstance(module, nn.Conv1d):
        return module.in_channels * module.kernel_size[0]
    assert isinstance(module, nn.Linear)
    return module.in_features


def _vectors(config: AttentiveConfig, given: Any) -> np.ndarray[Any, Any] | None:
    if given is None:
        return None
    values = np.array(given, dtype=np.float64)
    wanted = (config.vocab_size, config.embedding_size)
    if values.shape != wanted or not np.isfinite(values).all():
        raise BadParameter(
            f"vectors must be finite numbers of shape {wanted}: one row for each token of the vocabulary. "
            f"Got {values.shape}."
        )
    return values


"""A tokenizer of whole words: what stands between white space, numbered by how often it occurs."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from whence.core.errors import BadParameter

PAD, UNK, SOS, EOS = SPECIAL = ("<PAD>", "<UNK>", "<SOS>", "<EOS>")


def word_tokenizer(
    texts: Iterable[str],
    min_df: int = 1,
    lowercase: bool = False,
    max_words: int | None = None,
) -> Any:
    """Make a tokenizer with the words of some texts, the commonest first, and equally common ones by the alphabet.

    A word must occur in at least `min_df` texts; at most `max_words` are kept. All others are unknown.
    """
    normalizer = normalizers.Lowercase() if lowercase else None
    split = pre_tokenizers.WhitespaceSplit()
    occurs: Counter[str] = Counter()
    holds: Counter[str] = Counter()
    for text in texts:
        text = normalizer.normalize_str(text) if normalizer else text
        words = [word for word, _ in split.pre_tokenize_str(text)]
        occurs.update(words)
        holds.update(set(words))
    known = [word for word in occurs if holds[word] >= min_df and word not in SPECIAL]
    if not known:
        raise BadParameter(
            f"There is no word in the texts that occurs in at least min_df={min_df} of them. Lower it, or give more."
        )
    known = sorted(known, key=lambda word: (-occurs[word], word))[:max_words]
    ids = {word: number for number, word in enumerate([*SPECIAL, *known])}
    made = Tokenizer(models.WordLevel(ids, unk_token=UNK))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = split
    made.post_processor = processors.TemplateProcessing(
        single=f"{SOS}:0 $A:0 {EOS}:0",
        pair=f"{SOS}:0 $A:0 {EOS}:0 {SOS}:1 $B:1 {EOS}:1",
        special_tokens=[(SOS, ids[SOS]), (EOS, ids[EOS])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        unk_token=UNK,
        bos_token=SOS,
        eos_token=EOS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )
