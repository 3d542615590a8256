"""RNN, CNN and averaging classifiers with one row of attention (Jain & Wallace 2019); their word tokenizer.

Jain & Wallace 2019, arXiv:1902.10186: an encoder, one row of attention over its states, a decoder. The models
are saved as safetensors and a configuration, and loaded by `whence.load`; their model type is `attentive`.

Encoders take embeddings, (batch, tokens, features), and a mask of the text's own tokens, (batch, tokens);
states are zero at padding and at the other text of a pair. Initial weights follow PyTorch's distributions,
drawn from a seed alone. The tokenizer splits at white space and numbers words by frequency.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Any, Literal, get_args

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from whence.core.errors import BadEncoding, BadParameter
from whence.core.seed import build_generator

EncoderKind = Literal["bilstm", "cnn", "average"]
AttentionKind = Literal["tanh", "dot", "uniform"]


class AttentiveConfig(PretrainedConfig):  # type: ignore[misc]
    """The configuration of an attentive classifier; every value is checked."""

    model_type = "attentive"

    def __init__(
        self,
        vocab_size: int = 10_000,
        embedding_size: int = 300,
        hidden_size: int = 128,
        encoder: EncoderKind = "bilstm",
        attention: AttentionKind = "tanh",
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
        """Store and check the settings of the model.

        `hidden_size` is that of one direction of the LSTM, and of all filters of the convolutions together. `query`:
        the input is a pair, and the first text is attended to with the second in mind. `answers_in_passage`: only a
        label whose word, `answer_ids[label]`, occurs in the first text can be predicted. `training` is the recipe the
        model was trained by, as plain data.
        """
        super().__init__(**others)
        self.vocab_size = _check_count("vocab_size", vocab_size)
        self.embedding_size = _check_count("embedding_size", embedding_size)
        self.hidden_size = _check_count("hidden_size", hidden_size)
        kinds = (("encoder", encoder, EncoderKind), ("attention", attention, AttentionKind))
        for name, value, kind in kinds:
            if value not in get_args(kind):
                allowed = ", ".join(get_args(kind))
                raise BadParameter(f"{name} must be one of {allowed}. Got {value!r}.")
        self.encoder, self.attention = encoder, attention
        self.query = bool(query)
        self.kernels = tuple(_check_count("kernels", size) for size in kernels)
        self.answers_in_passage = bool(answers_in_passage)
        self.answer_ids = tuple(int(identity) for identity in answer_ids)
        self.training = dict(training or {})
        self.pad_token_id = pad_token_id
        self.bos_token_id = bos_token_id
        self.eos_token_id = eos_token_id
        if even := [size for size in self.kernels if size % 2 == 0]:
            raise BadParameter(
                f"kernels must be odd, so that a token stands in the middle. Got {even[0]!r}."
            )
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
        """The number of features that the encoder gives to each token."""
        if self.encoder == "bilstm":
            return 2 * self.hidden_size
        if self.encoder == "cnn":
            return self.hidden_size // len(self.kernels) * len(self.kernels)
        return self.hidden_size

    @property
    def outputs(self) -> int:
        """The number of decoder outputs: one for two exclusive labels, as in the paper."""
        one_sigmoid = self.num_labels == 2 and self.problem_type in (
            None,
            "single_label_classification",
        )
        return 1 if one_sigmoid and not self.query else int(self.num_labels or 0)


def _check_count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadParameter(f"{name} must be a whole number from 1. Got {value!r}.")
    return value


_IMPOSSIBLE_LOGIT = -1e9  # the logit of an answer that does not occur in the passage


class RowDecoder(nn.Module):
    """The decoder: from the attended mean, and the query if there is one, to the outputs."""

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
    """A classifier of an encoder, one row of attention over its states, and a decoder.

    Special tokens, padding and the query are not attended to. With two labels there is one output z, and the logits
    are -z/2 and z/2: their softmax is the authors' sigmoid of z.
    """

    config_class = AttentiveConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    _input_embed_layer = "embeddings"

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(
            config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id
        )
        # In a ModuleList, so that tracing finds them as the model's layers: the passage's, the query's.
        kinds = {"bilstm": BiLSTMEncoder, "cnn": ConvolutionEncoder, "average": AverageEncoder}
        self.encoders = nn.ModuleList(
            kinds[config.encoder](config) for _ in range(2 if config.query else 1)
        )
        self.attention = RowAttention(config)
        self.decoder = RowDecoder(config)
        self.post_init()

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        """Return False: transformers' attention functions do not compute such scores."""
        return False

    def _init_weights(self, module: nn.Module) -> None:
        """Leave PyTorch's initial weights; `initialise_model` draws them from a seed."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Any:
        """Return the logits; all inputs are (batch, tokens), and token type 1 is the query."""
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
        logits = self.decoder(self.attention(states, may, summary), summary)
        if logits.shape[1] != config.num_labels:  # one output z of two labels
            half = logits / 2
            logits = torch.cat([-half, half], dim=1)
        if config.answers_in_passage:
            words = torch.tensor(config.answer_ids, device=input_ids.device)
            present = ((input_ids[..., None] == words) & may[..., None]).any(1)
            lowest = max(_IMPOSSIBLE_LOGIT, torch.finfo(logits.dtype).min)
            logits = logits.masked_fill(~present, lowest)
        loss = None if labels is None else self._loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits))
        if self.config.problem_type == "regression" or self.config.num_labels == 1:
            return F.mse_loss(logits.reshape(labels.shape), labels.to(logits))
        return F.cross_entropy(logits, labels)


AutoConfig.register(AttentiveConfig.model_type, AttentiveConfig, exist_ok=True)
AutoModelForSequenceClassification.register(
    AttentiveConfig, AttentiveForSequenceClassification, exist_ok=True
)


class TanhScores(nn.Module):
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


class DotScores(nn.Module):
    """Scaled dot products with the query, or with a learnt vector where there is no query."""

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


class RowAttention(nn.Module):
    """One row of attention: scores, softmax weights, and the weighted mean of the states."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        kinds = {"tanh": TanhScores, "dot": DotScores}
        uniform = config.attention == "uniform"
        self.scores = None if uniform else kinds[config.attention](config)

    def forward(self, states: Tensor, may: Tensor, query: Tensor | None) -> Tensor:
        """Return the weighted mean of the states, (batch, width), over positions in `may`.

        The weights of all other positions are exactly zero; without any in `may`, so is the mean.
        """
        uniform = states.new_zeros(states.shape[:2])
        scores = uniform if self.scores is None else self.scores(states, query)
        scores = scores[:, None, None, :]  # one head, one row
        hidden = ~may[:, None, None, :]
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(hidden, lowest), dim=-1).masked_fill(hidden, 0)
        return torch.matmul(weights, states[:, None]).flatten(1)


EncoderOutput = tuple[Tensor, Tensor]  # states (batch, tokens, width), summary (batch, width)


class BiLSTMEncoder(nn.Module):
    """One bidirectional LSTM layer; the summary is its two final states."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True
        )

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> EncoderOutput:
        """Return states and summary of the text alone, whatever its padding."""
        order = _sort_own_first(own)
        lengths = own.sum(1)
        packed = pack_padded_sequence(
            _gather_positions(embedded, order),
            lengths.clamp(min=1).cpu(),  # an empty text gets one step, whose state is dropped
            batch_first=True,
            enforce_sorted=False,
        )
        # cuDNN computes gradients in training mode only. There is no dropout, so the mode changes nothing else.
        training, self.lstm.training = self.lstm.training, True
        try:
            with warnings.catch_warnings():
                # cuDNN wants all weights in one block of memory, which temporarily replaced weights are not.
                warnings.filterwarnings("ignore", "RNN module weights are not part of single")
                states, (final, _) = self.lstm(packed)
        finally:
            self.lstm.training = training
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=own.shape[1])
        own_states = _gather_positions(states, order.argsort(1)).masked_fill(~own[..., None], 0)
        summary = final.transpose(0, 1).reshape(len(own), -1)
        return own_states, summary.masked_fill(lengths[:, None] == 0, 0)


class ConvolutionEncoder(nn.Module):
    """Convolutions of several widths side by side; the summary is the maximum of each filter."""

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        filters = config.hidden_size // len(config.kernels)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.embedding_size, filters, size, padding=size // 2)
            for size in config.kernels
        )

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> EncoderOutput:
        """Return states and summary from each token and its neighbours; zeros outside of the text."""
        order = _sort_own_first(own)
        text = _gather_positions(embedded.masked_fill(~own[..., None], 0), order).transpose(1, 2)
        features = torch.cat([conv(text) for conv in self.filters], dim=1).relu().transpose(1, 2)
        # As in the authors' code, states at special tokens are zero.
        inside = own & ~special
        states = _gather_positions(features, order.argsort(1)).masked_fill(~inside[..., None], 0)
        return states, states.amax(1)


class AverageEncoder(nn.Module):
    """A projection of each token alone; the summary is their mean.

    The mean is over the text's own tokens: the authors' includes padding, and so depends on the rest of the batch.
    """

    def __init__(self, config: AttentiveConfig) -> None:
        super().__init__()
        self.projection = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, embedded: Tensor, own: Tensor, special: Tensor) -> EncoderOutput:
        """Return states without context, and their mean."""
        states = self.projection(embedded).tanh().masked_fill(~own[..., None], 0)
        return states, states.sum(1) / own.sum(1, keepdim=True).clamp(min=1)


def _sort_own_first(own: Tensor) -> Tensor:
    """Return an order of positions, (batch, tokens), with the text first, in its own order."""
    return (~own).to(torch.uint8).argsort(dim=1, stable=True)


def _gather_positions(values: Tensor, order: Tensor) -> Tensor:
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))


def initialise_model(
    config: AttentiveConfig, seed: int, vectors: Any = None
) -> AttentiveForSequenceClassification:
    """Return an untrained model with weights drawn from a seed.

    Embeddings are standard normal, or `vectors`, (vocab_size, embedding_size); padding is zero. All other weights
    are uniform between -b and b, where b is 1 / sqrt(fan-in).
    """
    rows = None if vectors is None else np.array(vectors, dtype=np.float64)
    expected = (config.vocab_size, config.embedding_size)
    if rows is not None and (rows.shape != expected or not np.isfinite(rows).all()):
        raise BadParameter(
            f"vectors must be finite numbers of shape {expected}: one row for each token of the vocabulary. "
            f"Got {rows.shape}."
        )
    with torch.random.fork_rng(devices=[]):  # PyTorch's own initial weights are overwritten
        model = AttentiveForSequenceClassification(config)
    with torch.no_grad():
        for path, module in model.named_modules():
            for name, weight in module.named_parameters(recurse=False):
                generator = build_generator("attentive", seed, f"{path}.{name}")
                if isinstance(module, nn.Embedding):
                    values = generator.standard_normal(weight.shape) if rows is None else rows
                    values[config.pad_token_id] = 0
                else:
                    bound = _compute_fan_in(module) ** -0.5
                    values = generator.uniform(-bound, bound, weight.shape)
                weight.copy_(torch.from_numpy(values))
    model.eval()
    return model


def _compute_fan_in(module: nn.Module) -> int:
    """Return the fan-in of a module; for an LSTM, PyTorch counts the hidden state."""
    if isinstance(module, nn.LSTM):
        return module.hidden_size
    if isinstance(module, nn.Conv1d):
        return module.in_channels * module.kernel_size[0]
    assert isinstance(module, nn.Linear)
    return module.in_features


PAD, UNK, SOS, EOS = WORD_LEVEL_SPECIALS = ("<PAD>", "<UNK>", "<SOS>", "<EOS>")


def build_word_tokenizer(
    texts: Iterable[str],
    min_df: int = 1,
    lowercase: bool = False,
    max_words: int | None = None,
) -> Any:
    """Build a tokenizer of the words in some texts, by falling frequency, then alphabetically.

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
    known = [word for word in occurs if holds[word] >= min_df and word not in WORD_LEVEL_SPECIALS]
    if not known:
        raise BadParameter(
            f"There is no word in the texts that occurs in at least min_df={min_df} of them. Lower it, or give more."
        )
    known = sorted(known, key=lambda word: (-occurs[word], word))[:max_words]
    ids = {word: number for number, word in enumerate([*WORD_LEVEL_SPECIALS, *known])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNK))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = split
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{SOS}:0 $A:0 {EOS}:0",
        pair=f"{SOS}:0 $A:0 {EOS}:0 {SOS}:1 $B:1 {EOS}:1",
        special_tokens=[(SOS, ids[SOS]), (EOS, ids[EOS])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNK,
        bos_token=SOS,
        eos_token=EOS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )
