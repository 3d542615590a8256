"""Tracing: one forward and backward pass of a model, recorded; the model is left as it was.

Attention is captured in two ways, both offered by transformers and PyTorch: it is routed through a function
of whence while a trace is taken (`attention_interface`), and models that do not allow that are read by
recognising softmax-then-matmul (`recognise`). Attention maps are not stored: a trace keeps q, k, v and the
gradient of the output, and methods contract them (`whence.kernels`).
"""

from whence.kernels.contract import contract, contract_normalised, gather
from whence.tracing.ask import ModelQuery, PredictionCache
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.attention_override import override_attention, watch_attention
from whence.tracing.forward import compute_plain_logits
from whence.tracing.structure import EncoderDecoder
from whence.tracing.target import ResolvedTargets, TargetSpec, compute_probabilities
from whence.tracing.trace import GRADIENTS, NEEDS, Trace, run_traced

__all__ = [
    "GRADIENTS",
    "NEEDS",
    "AttentionLayer",
    "EncoderDecoder",
    "ModelQuery",
    "PredictionCache",
    "ResolvedTargets",
    "TargetSpec",
    "Trace",
    "compute_plain_logits",
    "compute_probabilities",
    "contract",
    "contract_normalised",
    "gather",
    "override_attention",
    "run_traced",
    "watch_attention",
]
