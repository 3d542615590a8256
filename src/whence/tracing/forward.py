"""Forward pass as all of whence runs it: routed attention, check against the model's own output.

Models attend through whence also where nothing is recorded: then no mask of queries x keys is written out.
Left to themselves, models write one for every batch with padding and for every window.

A model that branches on the name of its attention, or relies on a mask that another kernel does without,
may compute something else once its attention is routed through whence. So the first pass by each route
costs one more forward pass of the same inputs with the model untouched. Only where the two differ by more
than rounding are there two more, to see how much the model differs from itself: by its own randomness
(Reformer draws its hashes), or by growth of one rounding of its embeddings, which no bound for a dtype
could foresee in a deep model in half precision.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache, partial
from inspect import signature
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from whence.core.errors import ModelFailed, WhenceError, is_failure
from whence.data.batches import Batch
from whence.data.readout import SimilarityReadout
from whence.models.facts import find_token_embeddings, get_facts, hold_parts
from whence.tracing.attention_interface import (
    attention_override,
    list_attention_configs,
    route_attention,
    routed_configs,
    weight_edit,
)
from whence.tracing.out_of_memory import is_device_lost, is_out_of_memory
from whence.tracing.restore import restore_on_exit, set_variable
from whence.tracing.target import (
    check_finite,
    count_last_positions,
    read_logits,
)

# Implementations that take a mask of queries x keys. Others take none, or are custom, and stay.
_DENSE_MASK_IMPLEMENTATIONS = frozenset({"sdpa", "eager", None})

Result = TypeVar("Result")


def list_replaceable_implementations(model: Any) -> list[str | None]:
    """Return a model's attention implementations if all may be routed when nothing is recorded; else nothing."""
    configs = list_attention_configs(model) if get_facts(model).is_routable else None
    own = [config._attn_implementation for config in configs or ()]
    return own if _DENSE_MASK_IMPLEMENTATIONS.issuperset(own) else []


@contextmanager
def route_unobserved(model: Any) -> Iterator[Callable[..., Any]]:
    """Yield a runner of work that calls the model at least once, with its attention routed if it can be.

    Work is repeated unrouted if routing failed. With a batch, which the work runs the model on, its output is
    checked, once, against the model's own.
    """
    with hold_parts(model), ExitStack() as routing:
        own, used = list_replaceable_implementations(model), set[bool]()
        if own:
            routing.enter_context(set_variable(attention_override, "own"))
            routing.enter_context(set_variable(weight_edit, None))
            routing.enter_context(route_attention(model, lambda _: used.add(True)))

        def run(work: Callable[[], Any], batch: Batch | None = None) -> Any:
            if not own:
                return work()
            try:
                result = work()
            except (RuntimeError, TypeError) as error:
                # An eager model's own masks are additive.
                if used or "eager" not in own or is_out_of_memory(error):
                    raise
            else:
                if used and (
                    batch is None
                    or is_faithful(model, "seam", batch, select_output_tensors(result), work)
                ):
                    return result
            # The model bypassed the routing, perhaps with masks that it does not take, or gave other outputs.
            get_facts(model).is_routable = False
            routing.close()
            own.clear()
            return work()

        yield run


def run_without_dense_masks(model: Any, work: Callable[[], Result]) -> Result:
    """Run work that calls the model at least once, without dense masks where that is possible."""
    with route_unobserved(model) as run:
        result: Result = run(work)
        return result


def run_forward(model: Any, batch: Batch) -> Any:
    """Run the model on a batch and return its output object."""
    inputs: dict[str, Any] = dict(batch.inputs)
    if batch.has_images:  # pixels are kept in float32, also for a model in half precision
        inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)
    reading = batch.items[0].reading
    if isinstance(reading, SimilarityReadout):  # the texts that an image is compared with
        inputs |= reading.beside
    known = _list_parameters(model.__class__.forward)
    if "use_cache" in known:
        # No next token needs cached keys and values, and a tape would record the copies.
        inputs["use_cache"] = False
    if "logits_to_keep" in known and (positions := count_last_positions(batch)):
        inputs["logits_to_keep"] = positions
    try:
        return model(**inputs)
    except BaseException as error:  # a model is foreign code, and may raise anything
        if isinstance(error, WhenceError) or is_out_of_memory(error) or not is_failure(error):
            raise
        if is_device_lost(error):  # not a failure of this input: every later call fails as well
            raise
        if not _fails_alone(partial(model, **inputs)):
            raise
        raise _build_model_error(model, error) from error


def _fails_alone(run: Callable[[], Any]) -> bool:
    """Return whether a model fails without whence: in another thread, where our hooks do nothing."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.no_grad()(run)).exception() is not None


def _build_model_error(model: Any, error: BaseException) -> ModelFailed:
    message = " ".join(str(error).split())
    message = f"{type(error).__name__}: {message if len(message) <= _MAX_ERROR_CHARACTERS else message[:_MAX_ERROR_CHARACTERS] + '...'}"
    dtypes = {weight.dtype for weight in model.parameters() if weight.is_floating_point()}
    dtype_names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
    by_dtype = dtypes - {torch.float32} and any(word in message.lower() for word in _DTYPE_WORDS)
    advice = (
        f"Its weights are {dtype_names}: load it with dtype='float32' (--dtype float32)."
        if by_dtype
        else "Look at its configuration, and at what its forward takes beside the text."
    )
    return ModelFailed(
        f"{type(model).__name__} fails on this input also by itself, without whence ({message}). {advice}"
    )


# Words in PyTorch's messages about an unsupported dtype, or a number that overflows one.
_DTYPE_WORDS = ("float", "double", "half", "dtype", "overflow", "scalar type")
_MAX_ERROR_CHARACTERS = 300  # of a model's error message: some fill a whole page


def compute_logits(model: Any, batch: Batch) -> Tensor:
    """Run the model and return its logits, (batch, labels); the caller sets hooks and modes."""
    output = run_forward(model, batch)
    return check_finite(read_logits(output, batch, type(model).__name__), "logits")


def run_unobserved(model: Any, batch: Batch) -> Any:
    """Run the model without recording, and return its output, checked once against its own pass."""
    with route_unobserved(model) as run:
        return run(partial(run_forward, model, batch), batch)


@contextmanager
def open_plain_forward(model: Any) -> Iterator[Callable[[Batch], Tensor]]:
    """Yield a function from a batch to its logits, (batch, labels), without gradients or recording."""
    with restore_on_exit(model), torch.inference_mode(), route_unobserved(model) as run:
        devices = {weight.get_device() for weight in model.parameters() if weight.is_cuda}

        def compute(batch: Batch) -> Tensor:
            # The same random state for every pass: Reformer draws its hashes.
            with torch.random.fork_rng(devices=sorted(devices)):
                output = run(partial(run_forward, model, batch), batch)
            return check_finite(read_logits(output, batch, type(model).__name__), "logits")

        yield compute


def compute_plain_logits(model: Any, batch: Batch) -> Tensor:
    """Return the logits of one batch, (batch, labels), without gradients or recording."""
    with open_plain_forward(model) as logits_of:
        return logits_of(batch)


@cache
def _list_parameters(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(forward).parameters)


# "seam": attention routed through whence; "recognised" in the model's own code; every step on a
# "tape"; "segments": blocks run without their graph.
CaptureRoute = Literal["seam", "recognised", "tape", "segments"]

# Whether this thread is in a comparison pass, which is not counted as a forward pass.
is_comparison: ContextVar[bool] = ContextVar("whence_checking", default=False)

_OUTPUT_NAMES = ("logits", "start_logits", "end_logits", "logits_per_image", "logits_per_text")
# Batch x tokens x tokens up to which a model's own pass is affordable with dense masks and maps: one
# text of 2,048 tokens takes 16 MiB for a mask and, by eager attention in float32, 16 MiB for every
# head of one layer. Longer inputs are cut to a few tokens and run by both routes.
_MAX_COMPARED_CELLS, _MAX_COMPARED_TOKENS = 1 << 22, 256
# Effect of rounding on logits, relative to the largest: several models compute norms or a softmax in
# float32 whatever their dtype, and sum in another order; half precision rounds in every layer.
_FLOAT32_TOLERANCE, _MAX_ROUNDINGS = 1e-4, 4
# Two routes may differ by this many times the model's difference from itself under perturbed
# embeddings: that noise enters at the embeddings only, rounding in every layer.
_NOISE_FACTOR = 8


def select_output_tensors(output: Any) -> dict[str, Tensor]:
    """Return the logits of a model's output by name, or its first floating-point tensor."""
    named = {name: getattr(output, name, None) for name in _OUTPUT_NAMES}
    tensors = {name: value.detach() for name, value in named.items() if isinstance(value, Tensor)}
    if tensors:
        return tensors
    parts = output.values() if isinstance(output, Mapping) else output
    parts = [parts] if isinstance(parts, Tensor) else list(parts)
    floats = (value for value in parts if isinstance(value, Tensor) and value.is_floating_point())
    first = next(floats, None)
    return {} if first is None else {"first": first.detach()}


def is_faithful(
    model: Any,
    route: CaptureRoute,
    batch: Batch,
    outputs: Mapping[str, Tensor],
    run: Callable[[], Any],
) -> bool:
    """Return whether the model's own pass gives the same `outputs` as a capture route.

    `run` runs the model on the batch. The result is cached; a model altered on purpose is not compared.
    """
    facts, key = get_facts(model), build_route_key(model, route)
    modified = attention_override.get() != "own" or weight_edit.get() is not None
    if key in facts.verified_routes or not outputs or modified or facts.override is not None:
        return True
    try:
        small = len(batch) * batch.real.shape[1] ** 2 <= _MAX_COMPARED_CELLS
        same = _is_same_output(model, batch.inputs, outputs, run) if small else None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        same = None
    if same is None and route != "seam":  # too long to compare; a shorter input will decide
        return True
    if same is None:
        same = _is_same_when_truncated(model, batch.inputs)
    if same:
        facts.verified_routes.add(key)
    return same


def build_route_key(model: Any, route: CaptureRoute) -> Hashable:
    """Return a route with the model's own attention implementation, which its owner may change at any time."""
    config = getattr(model, "config", None)
    return route, getattr(config, "_attn_implementation_internal", None)


def _is_same_when_truncated(model: Any, inputs: Mapping[str, Any]) -> bool:
    """Compare the routed and the own pass on the first input's first 255 tokens and its last."""
    few = {
        name: torch.cat(
            [one[:1, : _MAX_COMPARED_TOKENS - 1], one[:1, _MAX_COMPARED_TOKENS - 1 :][:, -1:]], 1
        )
        if isinstance(one, Tensor) and one.dim() > 1
        else one
        for name, one in inputs.items()
    }
    try:
        with _run_for_comparison(model), route_attention(model, None):
            outputs = select_output_tensors(model(**few))
    except (RuntimeError, ValueError, IndexError, TypeError):  # the model rejects a cut input
        return True
    return _is_same_output(model, few, outputs, lambda: model(**few))


def _is_same_output(
    model: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Tensor], run: Callable[[], Any]
) -> bool:
    with _run_for_comparison(model), set_variable(routed_configs, frozenset()):
        expected = select_output_tensors(run())
        difference = _compute_difference(outputs, expected, inputs)
        # The rounding step (eps) of the coarsest dtype among the weights.
        dtypes = {weight.dtype for weight in model.parameters() if weight.dtype.is_floating_point}
        precision = max(torch.finfo(dtype).eps for dtype in {*dtypes, torch.float64})
        if difference <= max(_FLOAT32_TOLERANCE, _MAX_ROUNDINGS * precision):
            return True
        noise = 0.0
        for turn in (0, 1):
            with ExitStack() as stack:
                # restore_on_exit gives every pass the same random state; these two get others
                torch.rand(1 + turn)
                _perturb_embeddings(model, precision, turn, stack)
                noise = max(
                    noise, _compute_difference(select_output_tensors(run()), expected, inputs)
                )
    return difference <= _NOISE_FACTOR * noise


@contextmanager
def _run_for_comparison(model: Any) -> Iterator[None]:
    """Mark forward passes inside the block as comparison passes, without gradients."""
    with set_variable(is_comparison, True), restore_on_exit(model), torch.no_grad():
        yield


def _compute_difference(
    outputs: Mapping[str, Tensor], expected: Mapping[str, Tensor], inputs: Mapping[str, Any]
) -> float:
    """Return the largest difference at real tokens relative to the largest value, at least 0."""
    worst = 0.0
    for name, output in outputs.items():
        other = expected.get(name)
        if other is None or other.shape != output.shape:
            return float("inf")
        output, other = output.double(), other.double()
        for mask in ("attention_mask", "decoder_attention_mask"):
            real = inputs.get(mask)
            if real is not None and real.dim() == 2 and output.shape[:2] == real.shape:
                output, other = output[real.bool()], other[real.bool()]
        # A model's own pass may give NaN where the routed one does not: Gemma 2 in float64, padded.
        fine = other.isfinite()
        if not bool(fine.any()):
            continue
        difference = (output - other)[fine].abs().max() / (other[fine].abs().max() + 1e-7)
        worst = max(worst, float(difference) if bool(difference.isfinite()) else float("inf"))
    return worst


def _perturb_embeddings(model: Any, precision: float, turn: int, stack: ExitStack) -> None:
    """Move each entry of the token embeddings by about one rounding, alternately up and down."""
    try:
        table = find_token_embeddings(model)
    except (NotImplementedError, AttributeError):  # image models have no token embeddings
        return
    step = max(precision, torch.finfo(torch.float32).eps)

    def move(_: Any, __: Any, output: Any) -> Any:
        if not (isinstance(output, Tensor) and output.is_floating_point()):
            return None
        signs = (torch.arange(output.shape[-1], device=output.device) + turn) % 2 * 2 - 1
        return output * (1 + step * signs.to(output.dtype))

    if isinstance(table, torch.nn.Module):
        stack.callback(table.register_forward_hook(move).remove)
