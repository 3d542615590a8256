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
