"""Registry of methods: required facts, name clashes, presets, and plugins through entry points."""

import subprocess
import sys
import textwrap

import pytest

from whence.core.errors import BadMethod, UnknownMethod
from whence.core.registry import Registry


def registry():
    return Registry(
        kind="method", package="whence.methods", required=frozenset({"cite"}), _complete=True
    )


def test_registry_refuses_an_entry_without_its_required_facts():
    with pytest.raises(BadMethod, match=r"must state \['cite'\]"):
        registry()("mine")(lambda trace: trace)


def test_registry_refuses_an_entry_without_a_docstring():
    with pytest.raises(BadMethod, match="needs a docstring"):
        registry()("mine", cite="me")(lambda trace: trace)


def test_registry_refuses_a_second_function_under_a_taken_name():
    def one(trace):
        """One."""

    def two(trace):
        """Two."""

    names = registry()
    names("mine", cite="me")(one)
    names("mine", cite="me")(one)  # the same again is no clash: modules may be imported twice
    with pytest.raises(BadMethod, match="is taken by"):
        names("mine", cite="me")(two)


def test_registry_get_of_an_unknown_name_suggests_known_names():
    def rollout(trace):
        """Roll."""

    names = registry()
    names("rollout", cite="me")(rollout)
    with pytest.raises(
        UnknownMethod, match=r"There is no method 'rolout'. Did you mean 'rollout'. Known: rollout."
    ):
        names.get("rolout")


PLUGIN = '''
    from whence.methods import method

    @method("{name}", family="mine", needs={{"embedding_grad"}}, signed=False, cite="me", formula="s = 1",
            cost="1 forward, 1 backward", misleads_when="always")
    def fn(trace):
        """Give everything the same score."""
        return trace.embeddings()[0].sum(-1) * 0 + 1
'''


def install(folder, package, source):
    """Lay an installed distribution into a folder, as pip would."""
    (folder / f"{package}.py").write_text(textwrap.dedent(source))
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[whence.methods]\n{package} = {package}\n")


def test_entry_point_plugins_are_registered_and_broken_ones_only_warn(tmp_path):
    install(tmp_path, "goodplugin", PLUGIN.format(name="flat"))
    install(tmp_path, "brokenplugin", "raise RuntimeError('I am broken')")
    program = """
        import warnings, sys
        sys.path.insert(0, sys.argv[1])
        import whence
        from whence.methods import method
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            names = method.names()
        assert "flat" in names, names
        messages = [str(w.message) for w in caught]
        assert any("'brokenplugin'" in m and "I am broken" in m for m in messages), messages
        found = whence.load("decoy").explain("a good film", method=["flat", "gradient"])
        print(found["flat"].scores.tolist())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1.0, 1.0, 1.0, 1.0, 1.0]"


GOOD = {
    "family": "x", "needs": {"attention"}, "signed": True, "cite": "x", "formula": "x", "cost": "x",
    "misleads_when": "x",
}  # fmt: skip


def takes_nothing():
    """Take nothing."""


def takes_something(x):
    """Take something."""


def reads(trace):
    """Read."""


@pytest.mark.parametrize(
    ("fn", "facts", "message"),
    [
        (takes_nothing, {}, "must take"),
        (takes_something, {}, "must take"),
        (reads, {"needs": "attention"}, "must need a set"),
        (reads, {"needs": {"atention"}}, "must need a set"),
    ],
)
def test_method_with_bad_arguments_or_needs_is_refused_at_registration(fn, facts, message):
    from whence.methods import method

    with pytest.raises(BadMethod, match=message):
        method("mine", **{**GOOD, **facts})(fn)
    assert "mine" not in method.names()


def strong(trace, *, power: int = 1):
    """Be strong."""


def preset_taken(trace, *, preset: int = 1):
    """Take the word for itself."""


@pytest.mark.parametrize(
    ("fn", "presets", "message"),
    [
        (strong, {"paper": {"powr": 2}}, "a preset 'paper' that cannot be: mine has no parameter 'powr'"),
        (strong, {"paper": {"power": "2"}}, "must be an integer. Got '2'"),
        (strong, {"paper": {"preset": "paper"}}, "must map names of presets"),
        (strong, {"paper": 2}, "must map names of presets"),
        (strong, ["paper"], "must map names of presets"),
        (preset_taken, {}, "has a parameter 'preset'"),
    ],
)  # fmt: skip
def test_invalid_preset_is_refused_at_registration(fn, presets, message):
    names = registry()
    with pytest.raises(BadMethod, match=message):
        names("mine", cite="me", presets=presets)(fn)
    assert names.names() == []


def test_registry_stores_given_presets_and_an_empty_mapping_otherwise():
    names = registry()
    names("mine", cite="me")(strong)
    names("yours", cite="you", presets={"paper": {"power": 2}})(reads_power)
    assert names.get("mine").presets == {}
    assert names.get("yours").presets == {"paper": {"power": 2}}


def reads_power(trace, *, power: int = 1):
    """Read the power."""


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda t: t.logits, "must return scores of"),
        (lambda t: None, "must return scores of"),
        (lambda t: (t.rows, {}, 3), "a mapping of axiom residuals"),
        (lambda t: (t.rows, {"sum": 3}), "one residual per input"),
        (lambda t: t.rows * float("nan"), "not finite"),
    ],
)
def test_explain_with_a_method_that_returns_bad_scores_raises_whence_error(
    monkeypatch, returned, message
):
    import whence
    from tests import zoo
    from whence.core.registry import Entry
    from whence.methods import method

    def odd(trace):
        """Return something odd."""
        return returned(trace)

    method.names()
    monkeypatch.setitem(method._entries, "odd", Entry("odd", odd, GOOD, {}))
    with pytest.raises(whence.WhenceError, match=message):
        whence.load(zoo.make("bert")).explain(zoo.rows("bert"), method="odd")
