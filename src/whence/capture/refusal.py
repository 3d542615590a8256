"""Why attention methods cannot work on a model, told before any of them reads it."""

from typing import Any

from whence.capture.anatomy.sides import UNATTENDING, Sides, two_sides
from whence.capture.recorder import Recorder
from whence.core.errors import NotCapturable
from whence.data import Batch


def sides_of(model: Any, recorder: Recorder, batch: Batch) -> Sides | NotCapturable | None:
    """Return an encoder and a decoder that were each given tokens of their own."""
    given = batch.inputs.get("decoder_input_ids")
    if given is None:
        return None
    targets = given.shape[1]
    return two_sides(model, recorder.layers, batch.real.shape[1] - targets, targets)


def why_not(
    model: Any, recorder: Recorder, batch: Batch, pooled: bool, sides: Sides | None
) -> NotCapturable | None:
    """Say why attention methods cannot work: attention not seen, not in every layer, or not one square map."""
    name = type(model).__name__
    if sides is not None:
        return sides.refusal(name)
    if getattr(model.config, "is_encoder_decoder", False):
        return NotCapturable(
            f"{name} has an encoder and a decoder; one attention row cannot explain both. {UNATTENDING}"
        )
    if not recorder.layers:
        return NotCapturable(
            f"No attention was seen in {name}: it uses neither transformers' attention interface nor PyTorch's "
            f"attention function, and multiplies no softmax with values. {UNATTENDING}"
        )
    if pooled:
        return NotCapturable(
            f"{name} pools its tokens by one row of attention: there is no stack of maps from tokens to tokens. Use "
            "raw_attention, attention_gradient or attention_gradcam, which read that row, or a method that needs no "
            "attention, like grad_x_input or leave_one_out: --method grad_x_input."
        )
    picture = batch.items[0].picture
    if picture is not None and not picture.tokens:
        return NotCapturable(
            f"{name} does not keep one token for each patch from the first layer to the last (it attends within "
            f"windows, or merges patches): there is no one map over its patches. {UNATTENDING}"
        )
    length = batch.real.shape[1]
    for index, layer in enumerate(recorder.layers):
        shape = (layer.length, layer.v.shape[2])
        if shape != (length, length):
            return NotCapturable(
                f"Layer {index} of {name} attends over {shape[0]} x {shape[1]} places, the input has {length} "
                f"tokens: its attention is not one map over the tokens. {UNATTENDING}"
            )
        if layer.hidden is None:
            return NotCapturable(
                f"Layer {index} of {name} is not a block in a list of layers. {UNATTENDING}"
            )
    expected = getattr(model.config, "num_hidden_layers", None)
    if isinstance(expected, int):
        expected *= getattr(model.config, "inner_group_num", 1)  # ALBERT: blocks within a layer
    if isinstance(expected, int) and expected != len(recorder.layers):
        return NotCapturable(
            f"{name} has {expected} layers, but attention was seen in {len(recorder.layers)}: the others move "
            f"information in another way. {UNATTENDING}"
        )
    return None


def pools(recorder: Recorder, batch: Batch) -> bool:
    """Say whether the only attention is one row over the tokens, and in no block of its own."""
    shapes = [(layer.length, layer.v.shape[2]) for layer in recorder.layers]
    return shapes == [(1, batch.real.shape[1])] and recorder.layers[0].hidden is None
