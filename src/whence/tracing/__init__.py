"""Tensors out of a model, and nothing left behind.

Two seams, both offered by transformers and PyTorch: attention goes through a function of ours while a trace is
taken (`seam`), and models that do not offer that are read by recognising softmax-then-matmul (`recognise`).
Attention maps are not stored: a trace keeps q, k, v and the gradient of the output, and methods contract
them (`whence.kernels`).
"""

from whence.capture.anatomy.sides import Sides
from whence.capture.asking.answers import Answers
from whence.capture.asking.ask import Ask
from whence.capture.attention.layer import AttentionLayer
from whence.capture.attention.manner import attention_as, watching
from whence.capture.forward import bare_logits
from whence.capture.memory.compiled import compile_forward
from whence.capture.target import Targets, TargetSpec, probabilities
from whence.capture.trace import GRADIENTS, NEEDS, Trace
from whence.capture.tracing import trace
from whence.kernels import contract, contract_normalised, gather

__all__ = [
    "GRADIENTS",
    "NEEDS",
    "Answers",
    "Ask",
    "AttentionLayer",
    "Sides",
    "TargetSpec",
    "Targets",
    "Trace",
    "attention_as",
    "bare_logits",
    "compile_forward",
    "contract",
    "contract_normalised",
    "gather",
    "probabilities",
    "trace",
    "watching",
]


"""How a model attends, seen while it does."""
