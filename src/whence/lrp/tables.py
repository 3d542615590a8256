"""The tables: operation -> rule. A row is all that a new operation costs.

Names of operations are those of `ops`; names of modules are full class names with wildcards, and beat operations.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Generic, Literal, TypeVar

from whence.capture.tape.tape import Call, Step, Tape
from whence.core.errors import NoRule
from whence.lrp import attention, linear, rules
from whence.lrp.ops import operation
from whence.lrp.rules import Rule

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Table(Generic[R]):
    """Rules for operations and modules, and what they carry along the tape."""

    name: str
    carries: Literal["relevance", "quotient", "parts"]
    ops: dict[str | Callable[..., Any], R]
    modules: dict[str, R] = field(default_factory=dict)
    cut: R | None = None  # the rule whose results count as constants

    def add(self, op: str | Callable[..., Any], rule: R) -> None:
        """Add a row: for a function of PyTorch, or, by name, for an operation or a module's class."""
        if isinstance(op, str) and "." in op:
            self.modules[op] = rule
        else:
            self.ops[op] = rule

    def op(self, step: Step) -> R | None:
        """Return the rule of a step, whichever way its operation is spelled."""
        if step.func is None:
            return None
        return self.ops.get(step.func) or self.ops.get(operation(step) or "")

    def module(self, call: Call) -> R | None:
        """Return the rule of a module's class; a name that starts with * is for modules without parts."""
        for name, rule in self.modules.items():
            if fnmatchcase(call.kind, name) and (call.leaf or not name.startswith("*")):
                return rule
        return None

    def rows(self, tape: Tape) -> list[tuple[Step | Call, R | None]]:
        """Lay a tape out with its rules: a module with a rule of its own stands for all steps inside it."""
        whole: dict[int, tuple[Call, R]] = {}
        known: dict[tuple[str, bool], R | None] = {}
        for call in tape.calls:
            kind = (call.kind, call.leaf)
            if kind not in known:
                known[kind] = self.module(call)
            rule = known[kind]
            if rule is not None and call.last >= call.first and call.inputs:
                whole[call.first] = (call, rule)  # an outer call ends later, and wins
        laid: list[tuple[Step | Call, R | None]] = []
        index = 0
        while index < len(tape.steps):
            if index in whole:
                laid.append(whole[index])
                index = whole[index][0].last
            else:
                step = tape.steps[index]
                laid.append((step, self.op(step)))
            index += 1
        return laid

    def no_rule(self, one: Step | Call) -> NoRule:
        """Say which operation has no rule, where it was called, and how to add one."""
        where = ".".join(one.module) or "the model itself"
        return NoRule(
            f"The table {self.name!r} has no rule for {one.name}, called in {where}. Add a row: "
            f"whence.lrp.TABLES[{self.name!r}].add(function or 'module.Class', rule); docs/errors/no-rule.md "
            "shows how. Or use a method that does not follow every operation, like grad_x_input."
        )


# Activations that are written out (GPT-2's, ALBERT's) are one operation all the same, and so are norms.
ACTIVATIONS = "transformers.activations.*"
NORMS = ("*LayerNorm", "*RMSNorm")

CHEFER: Table[Rule] = Table(
    "ours",
    "relevance",
    {
        "linear": linear.agreeing,
        "addmm": linear.agreeing,
        "conv2d": rules.box,
        "attention": attention.shared_normalised,
        "matmul": linear.halves_or_agreeing,
        "einsum": rules.halves,
        "mul": rules.halves,
        "add": rules.sum_normalised,
        "sub": rules.sum_normalised,
        "rsub": rules.sum_normalised,
        "div": rules.unchanged,
        "neg": rules.unchanged,
        "softmax": rules.unchanged,
        "activation": rules.unchanged,
        "gate": rules.unchanged,
        "square": rules.unchanged,
        "layer_norm": rules.unchanged,
        "rms_norm": rules.unchanged,
        "dropout": rules.unchanged,
        "scale": rules.cut,
        "sum": rules.in_proportion,
        "pick": rules.copied,
        "join": rules.copied,
        "move": rules.pulled,
    },
    dict.fromkeys((ACTIVATIONS, *NORMS), rules.unchanged),
    rules.cut,
)

ORIGINAL_LRP: Table[Rule] = Table(
    "original",
    "relevance",
    CHEFER.ops
    | {
        "linear": linear.agreeing_apart,
        "addmm": linear.agreeing_apart,
        "attention": attention.shared,
        "matmul": linear.halves_or_agreeing_apart,
        "add": rules.sum_in_proportion,
        "sub": rules.sum_in_proportion,
        "rsub": rules.sum_in_proportion,
    },
    dict(CHEFER.modules),
    rules.cut,
)

ATTN_LRP: Table[Rule] = Table(
    "attn_lrp",
    "quotient",
    {
        "linear": linear.weighted,
        "addmm": linear.weighted,
        "conv2d": rules.pulled,
        "attention": attention.differentiated,
        "matmul": rules.pulled_halves,
        "einsum": rules.pulled_halves,
        "mul": rules.pulled_halves,
        "add": rules.pulled,
        "sub": rules.pulled,
        "rsub": rules.pulled,
        "div": rules.numerator,
        "neg": rules.pulled,
        "softmax": rules.pulled,
        "activation": rules.slope,
        "gate": rules.pulled,
        "square": rules.slope,
        "layer_norm": rules.centred,
        "rms_norm": rules.rescaled,
        "dropout": rules.pulled,
        "scale": rules.cut,
        "sum": rules.pulled,
        "pick": rules.pulled,
        "join": rules.pulled,
        "move": rules.pulled,
    },
    {ACTIVATIONS: rules.slope},
    rules.cut,
)

CP_LRP: Table[Rule] = Table(
    "cp_lrp",
    "quotient",
    ATTN_LRP.ops
    | {"attention": attention.only_values, "softmax": rules.cut, "mul": rules.past_the_gate},
    dict(ATTN_LRP.modules),
    rules.cut,
)

RELEVANCE = {table.name: table for table in (CHEFER, ORIGINAL_LRP, ATTN_LRP, CP_LRP)}
