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
