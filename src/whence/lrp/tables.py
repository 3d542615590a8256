"""`RuleTable` (operation or module -> LRP rule), and four tables: Chefer's, original LRP, AttnLRP, CP-LRP.

Names of operations are those of `node`; names of modules are full class names with wildcards, and beat
operations.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Generic, Literal, TypeVar

from whence.core.errors import NoRule
from whence.lrp import attention_rules, linear, rules
from whence.lrp.node import find_operation
from whence.lrp.rules import Rule
from whence.tracing.tape import ModuleCall, Tape, TapeStep

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class RuleTable(Generic[R]):
    """Rules for operations and modules, and the kind of values that they carry along the tape."""

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

    def op(self, step: TapeStep) -> R | None:
        """Return the rule of a step, for any spelling of its operation; None if there is none."""
        if step.func is None:
            return None
        return self.ops.get(step.func) or self.ops.get(find_operation(step) or "")

    def module(self, call: ModuleCall) -> R | None:
        """Return the rule of a module's class; a name with a leading * is for leaf modules only."""
        for name, rule in self.modules.items():
            if fnmatchcase(call.kind, name) and (call.leaf or not name.startswith("*")):
                return rule
        return None

    def rows(self, tape: Tape) -> list[tuple[TapeStep | ModuleCall, R | None]]:
        """Return the steps of a tape with their rules; a module with a rule replaces its inner steps."""
        whole: dict[int, tuple[ModuleCall, R]] = {}
        rule_by_kind: dict[tuple[str, bool], R | None] = {}
        for call in tape.calls:
            kind = (call.kind, call.leaf)
            if kind not in rule_by_kind:
                rule_by_kind[kind] = self.module(call)
            rule = rule_by_kind[kind]
            if rule is not None and call.last >= call.first and call.inputs:
                whole[call.first] = (call, rule)  # an outer call ends later, and wins
        rows: list[tuple[TapeStep | ModuleCall, R | None]] = []
        index = 0
        while index < len(tape.steps):
            if index in whole:
                rows.append(whole[index])
                index = whole[index][0].last
            else:
                step = tape.steps[index]
                rows.append((step, self.op(step)))
            index += 1
        return rows

    def build_no_rule_error(self, one: TapeStep | ModuleCall) -> NoRule:
        """Return the error that names the operation without a rule, its module, and the remedy."""
        where = ".".join(one.module) or "the model itself"
        return NoRule(
            f"The table {self.name!r} has no rule for {one.name}, called in {where}. Add a row: "
            f"whence.lrp.TABLES[{self.name!r}].add(function or 'module.Class', rule); docs/errors/no-rule.md "
            "shows how. Or use a method that does not follow every operation, like grad_x_input."
        )


# Activations and norms in several steps (GPT-2's, ALBERT's activations) are treated as one operation.
ACTIVATION_MODULES = "transformers.activations.*"
NORM_MODULES = ("*LayerNorm", "*RMSNorm")

CHEFER: RuleTable[Rule] = RuleTable(
    "ours",
    "relevance",
    {
        **dict.fromkeys(("linear", "addmm"), linear.z_plus_rule),
        "conv2d": rules.z_box_rule,
        "attention": attention_rules.attention_normalised_rule,
        "matmul": linear.only_for_weights(linear.z_plus_rule),
        **dict.fromkeys(("einsum", "mul"), rules.product_rule),
        **dict.fromkeys(("add", "sub", "rsub"), rules.sum_normalised_rule),
        **dict.fromkeys(("div", "neg", "softmax", "activation", "gate"), rules.identity_rule),
        **dict.fromkeys(("square", "layer_norm", "rms_norm", "dropout"), rules.identity_rule),
        "scale": rules.stop_rule,
        "sum": rules.epsilon_rule,
        **dict.fromkeys(("pick", "join"), rules.copy_rule),
        "move": rules.gradient_rule,
    },
    dict.fromkeys((ACTIVATION_MODULES, *NORM_MODULES), rules.identity_rule),
    rules.stop_rule,
)

ORIGINAL_LRP: RuleTable[Rule] = RuleTable(
    "original",
    "relevance",
    CHEFER.ops
    | {
        **dict.fromkeys(("linear", "addmm"), linear.z_plus_by_sign_rule),
        "attention": attention_rules.attention_rule,
        "matmul": linear.only_for_weights(linear.z_plus_by_sign_rule),
        **dict.fromkeys(("add", "sub", "rsub"), rules.sum_epsilon_rule),
    },
    dict(CHEFER.modules),
    rules.stop_rule,
)

ATTN_LRP: RuleTable[Rule] = RuleTable(
    "attn_lrp",
    "quotient",
    {
        **dict.fromkeys(("linear", "addmm"), linear.linear_gradient_rule),
        "attention": attention_rules.attention_gradient_rule,
        **dict.fromkeys(("matmul", "einsum", "mul"), rules.product_gradient_rule),
        **dict.fromkeys(("conv2d", "add", "sub", "rsub", "neg", "softmax"), rules.gradient_rule),
        **dict.fromkeys(("gate", "dropout", "sum", "pick", "join", "move"), rules.gradient_rule),
        "div": rules.division_gradient_rule,
        **dict.fromkeys(("activation", "square"), rules.activation_gradient_rule),
        "layer_norm": rules.layer_norm_gradient_rule,
        "rms_norm": rules.rms_norm_gradient_rule,
        "scale": rules.stop_rule,
    },
    {ACTIVATION_MODULES: rules.activation_gradient_rule},
    rules.stop_rule,
)

CP_LRP: RuleTable[Rule] = RuleTable(
    "cp_lrp",
    "quotient",
    ATTN_LRP.ops
    | {
        "attention": attention_rules.attention_values_rule,
        "softmax": rules.stop_rule,
        "mul": rules.gate_gradient_rule,
    },
    dict(ATTN_LRP.modules),
    rules.stop_rule,
)

RELEVANCE_TABLES = {table.name: table for table in (CHEFER, ORIGINAL_LRP, ATTN_LRP, CP_LRP)}
