"""What a language model goes on with, and what it thought of every other token on the way."""

from typing import Any

import torch
from torch import Tensor

from whence.capture.forward import run_alone
from whence.capture.found import as_found
from whence.capture.target import finite
from whence.data import Encoded, collate


def greedy(
    model: Any, item: Encoded, tokens: int, *, pad_id: int | None, device: torch.device
) -> tuple[list[int], Tensor]:
    """Let the model go on by its likeliest token, so many at most; keys and values are kept between them.

    Returns the tokens, up to and with the one that ends the text, and its logits before each, (tokens, vocabulary).
    """
    inputs = collate([item], pad_id=pad_id, device=device).inputs
    given = "decoder_input_ids" if item.answer else "input_ids"
    length = inputs[given].shape[1] + tokens
    # A padding token is only asked for so that generate need not make one up, and say so.
    filler = {} if pad_id is not None else {"pad_token_id": 0}
    with as_found(model), torch.inference_mode():
        made = model.generate(
            **inputs,
            **filler,
            **_plain(model.generation_config, tokens, length),
        )
        ids = made.sequences[0, inputs[given].shape[1] :].tolist()
        logits = torch.stack([step[0] for step in made.logits])[: len(ids)]
    return ids, finite(logits.clone(), "logits")


def _plain(own: Any, tokens: int, length: int) -> dict[str, Any]:
    """Return settings for the likeliest token, step by step, whatever a model's own settings ask for.

    What a model forbids, forces or penalises stays: that is part of which token it says.
    """
    least = {
        name: min(getattr(own, name), most)
        for name, most in (("min_length", length), ("min_new_tokens", tokens))
        if getattr(own, name, None)
    }
    off = dict.fromkeys(
        (
            "max_length", "max_time", "forced_eos_token_id", "stop_strings", "penalty_alpha", "dola_layers",
            "guidance_scale", "prompt_lookup_num_tokens", "assistant_early_exit", "watermarking_config",
            "cache_implementation", "prefill_chunk_size", "temperature", "top_k", "top_p", "length_penalty",
            "early_stopping",
        )
    )  # fmt: skip
    return {
        **off,
        **least,
        "max_new_tokens": tokens,
        "do_sample": False,
        "num_beams": 1,
        "num_return_sequences": 1,
        "token_healing": False,
        "use_cache": True,
        "return_dict_in_generate": True,
        "output_logits": True,
        "output_scores": False,
        "output_attentions": False,
        "output_hidden_states": False,
    }


def foretold(
    model: Any, item: Encoded, count: int, *, pad_id: int | None, device: torch.device
) -> Tensor:
    """Return the logits before each of the last `count` tokens of an input, (count, vocabulary), in one pass."""
    batch = collate([item], pad_id=pad_id, device=device)
    with as_found(model), torch.inference_mode():
        made = run_alone(model, batch)
        logits: Tensor = made.logits[0, -count - 1 : -1]
    return finite(logits.clone(), "logits")
