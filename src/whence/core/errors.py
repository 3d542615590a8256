"""Error classes of whence, each with code and exit status, and helpers for messages and caught exceptions.

Every error that whence raises on purpose has a code (its page in docs/errors) and an exit status; its message is one
line: the value, the allowed values, the next step.

A panic in Rust code (tokenizers, safetensors, pydantic) is not an `Exception`, but it is a failure;
`is_failure` tells failures from Ctrl-C and from the cancellation of a task.
"""

from asyncio import CancelledError
from typing import ClassVar


class WhenceError(Exception):
    """The base class of all errors of whence."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(line.strip() for line in message.splitlines()))

    @property
    def page(self) -> str:
        """The path of the documentation page of this error."""
        return f"docs/errors/{self.code}.md"


class InputError(WhenceError):
    """The input cannot be explained."""


class EmptyText(InputError):
    code, exit_status = "empty-text", 10  # nothing but white space


class TooLong(InputError):
    code, exit_status = "too-long", 11  # more tokens than the model has positions


class BadEncoding(InputError):
    code, exit_status = "bad-encoding", 12  # a mapping that is not an encoded input


class BadExamples(InputError):
    # a data set that cannot be read, or rationales that do not fit it
    code, exit_status = "bad-examples", 13


class BadPicture(InputError):
    # a file that is no picture, a broken or huge one, or pixels that do not fit
    code, exit_status = "bad-picture", 14


class RequestError(WhenceError):
    """The request names an unknown method, metric, target or plan, or an invalid parameter."""


class UnknownMethod(RequestError):
    code, exit_status = "unknown-method", 20  # no method of that name


class UnknownTarget(RequestError):
    code, exit_status = "unknown-target", 21  # no label or index of that name


class BadParameter(RequestError):
    # a parameter that does not exist or a value it cannot take
    code, exit_status = "bad-parameter", 22


class UnknownMetric(RequestError):
    code, exit_status = "unknown-metric", 23  # no metric of that name


class UnknownExperiment(RequestError):
    code, exit_status = "unknown-experiment", 24  # no experiment of that name


class BadPlan(RequestError):
    # a plan of a run that cannot be read, or that contradicts itself
    code, exit_status = "bad-plan", 25


class ModelError(WhenceError):
    """The model cannot be loaded or explained."""


class UnknownModel(ModelError):
    code, exit_status = "unknown-model", 30  # neither built in, nor a folder, nor on the Hub


class UnsafeWeights(ModelError):
    code, exit_status = "unsafe-weights", 31  # weights in a pickle, or code of its own


class NoTokenizer(ModelError):
    code, exit_status = "no-tokenizer", 32  # text for a model without a tokenizer


class BadTokenizer(ModelError):
    code, exit_status = "bad-tokenizer", 33  # a tokenizer that does not fit the model


class NoHead(ModelError):
    code, exit_status = "no-head", 34  # nothing to explain: no classification head


class NotFinite(ModelError):
    code, exit_status = "not-finite", 35  # NaN or infinity in the logits or scores


class NotCapturable(ModelError):
    code, exit_status = "not-capturable", 36  # attention that cannot be read from this model


class NoRule(ModelError):
    code, exit_status = "no-rule", 37  # an operation that relevance has no rule for


class OutOfMemory(ModelError):
    code, exit_status = "out-of-memory", 38  # an input that is larger than the memory


class ModelFailed(ModelError):
    code, exit_status = "model-failed", 39  # a model that fails on the input also by itself


class OutputError(WhenceError):
    """The result cannot be written or read back."""


class CannotWrite(OutputError):
    code, exit_status = "cannot-write", 40  # no permission, no folder, no space


class CannotRead(OutputError):
    code, exit_status = "cannot-read", 41  # a saved explanation that is not one


class BadStore(OutputError):
    code, exit_status = "bad-store", 42  # a folder that holds no run, another run, or a damaged one


class StoreInUse(OutputError):
    code, exit_status = "store-in-use", 43  # a folder that another run is writing to


class MethodError(WhenceError):
    """A registered method, metric or experiment breaks the rules of registration."""


class BadMethod(MethodError):
    # a method that states too little, clashes, or returns nonsense
    code, exit_status = "bad-method", 50


class RunError(WhenceError):
    """The run cannot be completed."""


class WorkersFailed(RunError):
    # workers that cannot be started, or that die again and again
    code, exit_status = "workers-failed", 70


class NothingExplained(RunError):
    # a run or evaluation in which nothing could be done
    code, exit_status = "nothing-explained", 71


class AppError(WhenceError):
    """The app cannot serve the request, or refuses it."""


class CannotServe(AppError):
    # a port that is taken, a host that is not there, a page that was not built
    code, exit_status = "cannot-serve", 60


class NotAllowed(AppError):
    # a foreign page, a missing token, a model that is not on the list
    code, exit_status = "not-allowed", 61


class NotFound(AppError):
    code, exit_status = "not-found", 62  # no such address, job, data set or result


class TooLarge(AppError):
    code, exit_status = "too-large", 63  # more bytes than the app takes


class BadRequest(AppError):
    code, exit_status = "bad-request", 64  # a request that is not what the address takes


class Busy(AppError):
    code, exit_status = "busy", 65  # the model is at work, and the time to wait is over


def list_errors() -> list[type[WhenceError]]:
    """Return every concrete error class, in the order of the tree."""
    return [leaf for branch in WhenceError.__subclasses__() for leaf in branch.__subclasses__()]


def shorten_quote(text: str, most: int = 40) -> str:
    """Return a text for quotation in an error, cut after `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def suggest_name(name: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known name, or "" where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def is_failure(error: BaseException) -> bool:
    """Return whether an exception is a failure, and not Ctrl-C or the cancellation of a task.

    Each library built with pyo3 (tokenizers, safetensors, pydantic) has a class of its own for panics, which is no
    Exception and cannot be imported. Foreign code that calls sys.exit has failed as well.
    """
    return not isinstance(error, KeyboardInterrupt | GeneratorExit | CancelledError)


def to_exception(error: BaseException) -> Exception:
    """Return a failure as an `Exception`, wrapping a `SystemExit` or a Rust panic in a `RuntimeError`.

    A `SystemExit` that is raised again would end the thread or process that waits for the
    result.
    """
    if isinstance(error, Exception):
        return error
    failure = RuntimeError(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
