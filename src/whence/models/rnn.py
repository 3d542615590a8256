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
