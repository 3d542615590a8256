"""Tiny T5, BART, Pegasus and Marian models for tests of encoder-decoders; tolerances; source and answer inputs."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers as hf

from tests import zoo
from whence.core.types import InputText, Token
from whence.data.readout import Readout, TokenReadout
from whence.data.tokens import EncodedInput

END = 3
_SHARED = {"vocab_size": 64, "d_model": 32, "pad_token_id": 0, "eos_token_id": END}
_BART = {
    **_SHARED, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 48, "bos_token_id": 2,
    "decoder_start_token_id": END,
}  # fmt: skip
_T5 = {
    **_SHARED, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip

_MAKERS: dict[str, Callable[[], Any]] = {
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**_T5)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**_BART)),
    # A norm before each part, and embeddings that are scaled after they are looked up.
    "pegasus": lambda: hf.PegasusForConditionalGeneration(
        hf.PegasusConfig(**_BART, scale_embedding=True)
    ),
    # Two tables of embeddings.
    "marian": lambda: hf.MarianMTModel(
        hf.MarianConfig(**_BART, share_encoder_decoder_embeddings=False)
    ),
}
NAMES = tuple(_MAKERS)


def make(name: str, seed: int = 0) -> Any:
    """Build a model with random weights in float64."""
    return zoo.seeded(_MAKERS[name], seed).double().eval()


def tolerance(name: str) -> float:
    """Return what may differ, in parts of a number: T5 computes its norms in float32, whatever its dtype."""
    return 2e-5 if name == "t5" else 1e-9


def item(
    model: Any, source: Sequence[int], said: Sequence[int], reading: Readout | None = None
) -> EncodedInput:
    """Return an input of a source and of what the decoder said so far, its start put before."""
    answer = (model.config.decoder_start_token_id, *said)
    tokens = [Token(str(i), None, None, 0, i == END, i) for i in source]
    tokens += [Token(str(i), None, None, 1, not n, i) for n, i in enumerate(answer)]
    features = {"input_ids": tuple(source), "attention_mask": (1,) * len(source)}
    reading = TokenReadout(-1, (11, 12)) if reading is None else reading
    return EncodedInput(
        features, tuple(tokens), (), InputText(None), answer=answer, reading=reading, labels=("11", "12", "rest")
    )  # fmt: skip


def items(model: Any) -> list[EncodedInput]:
    """Return inputs that differ in both lengths; the longest source goes with the shortest answer."""
    draw = torch.Generator().manual_seed(0)
    made = []
    for source, said in ((9, 1), (4, 6), (6, 3)):
        ids = torch.randint(4, 64, (source + said,), generator=draw).tolist()
        made.append(item(model, [*ids[:source], END], ids[source:]))
    return made
