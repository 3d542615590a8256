"""Checkers of documentation code (code_blocks.py, shell.py, `Page`): blocks are parsed, and wrong ones fail."""

import pytest

from tests.docs import shell
from tests.docs.code_blocks import (
    Block,
    blocks,
    commands,
    console_commands,
    matches_expected_output,
    needs_shell,
    without_comment,
)
from tests.docs.test_code_blocks import Page

PAGE = """\
# A page

<!-- setup: why, results -->
<!-- not run: needs a GPU -->
```python
print(why)
```

1. In a list:

   ```sh
   ls  # what is there
   ```

````text
```python
this is no code
```
````
"""


def sh(text):
    return Block("sh", text, 10)


def test_blocks_returns_language_text_line_and_marks_of_each_block():
    first, second, third = blocks(PAGE)
    assert first == Block("python", "print(why)\n", 6, ("why", "results"), "needs a GPU")
    assert second == Block("sh", "ls  # what is there\n", 12)
    assert third == Block("text", "```python\nthis is no code\n```\n", 16)


def test_blocks_drops_a_mark_that_is_followed_by_prose():
    text = "<!-- not run: GPU -->\n\nSomething else.\n\n```sh\nls\n```\n"
    (only,) = blocks(text)
    assert only.not_run is None


def test_commands_joins_continued_lines_heredocs_and_quoted_lines():
    text = "# a comment\nls a \\\n  b   # more\n\ncat <<'E' > f\n# kept\nE\necho 'one\ntwo'\necho a#b\n"
    found = commands(sh(text))
    assert [(one.text, one.line) for one in found] == [
        ("ls a  b", 11),
        ("cat <<'E' > f\n# kept\nE", 14),
        ("echo 'one\ntwo'", 17),
        ("echo a#b", 19),
    ]


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("ls # all", "ls "),
        ("say 'a # b' \"c # d\" # e", "say 'a # b' \"c # d\" "),
        ("open page#part", "open page#part"),
        ("# all", ""),
    ],
)
def test_without_comment_strips_only_comments_outside_quotes_and_words(line, bare):
    assert without_comment(line) == bare


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ('whence explain "a film; or two | three"', False),
        ('whence explain "$(cat f)"', True),
        ("whence explain '$(cat f)'", False),
        ("ls *.md", True),
        ("ls | head", True),
        ("A=1 ls", True),
        ("whence trust a --param x=1", False),
    ],
)
def test_needs_shell_is_true_for_pipes_variables_and_wildcards(text, needs):
    assert needs_shell(text) is needs


def test_console_commands_pairs_commands_with_expected_output_or_raises():
    told = console_commands(Block("console", "$ ls  # here\na\nb\n$ echo $?\n0\n", 3))
    assert [(one.text, one.line, one.expected) for one in told] == [
        ("ls", 3, "a\nb\n"),
        ("echo $?", 6, "0\n"),
    ]
    with pytest.raises(ValueError, match="begins with a command"):
        console_commands(Block("console", "a\n", 3))


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "a  \nb\n", True),
        ("a\n", "a\nb\n", False),
        ("...\nb\n", "a\na\nb\n", True),
        ("a\n...\n", "a\n", True),
        ("a ... c\n", "a b c\n", True),
        ("a ... c\n", "a b\n c\n", False),
        ("a.c\n", "abc\n", False),
        ("", "", True),
        ("", "a\n", False),
    ],
)
def test_matches_expected_output_takes_dots_for_any_text_or_lines(expected, printed, same):
    assert matches_expected_output(expected, printed) is same


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("whence explain a --modl b", "--modl"),
        ("whence explian a", "explian"),
        ("whence run --limit 0", "limit"),
        ("whence store mend results", "mend"),
        ("A=1 whence explain a --modl b", "--modl"),
        ("ls && whence explain a --modl b", "--modl"),
        ("make coffee", "coffee"),
        ("pip install 'whence[coffee]'", "coffee"),
        ("python -m bench.coffee", "coffee"),
        ("python bench/coffee.py --hot", "coffee"),
        (".venv/bin/python -m pytest tests/coffee", "coffee"),
    ],
)
def test_find_command_fault_names_an_unknown_option_target_extra_or_module(text, said):
    assert said in str(shell.find_command_fault(text))


@pytest.mark.parametrize(
    "text",
    [
        "whence app --compare a b --port 8000",
        "whence run plan.toml --backend ray --actors 8 --gpus-per-actor 0.125",
        "whence --help",
        "make test",
        "pip install 'whence[ray,hub]'",
        "git clone <this repository> && cd whence",
        "python -m bench.science.shapes --out results",
    ],
)
def test_find_command_fault_of_a_valid_command_returns_none(text):
    assert shell.find_command_fault(text) is None


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("", "ls\n", "names its language"),
        ("rust", "ls\n", "names its language"),
        ("sh", "false\n", "exit status 1"),
        ("sh", "whence list coffee\n", "exit status 2"),
        ("console", "$ echo a\nb\n", "it prints"),
        ("console", "$ false\n", "exit status 1"),
        ("console", "$ false\n$ echo $?\n2\n", "it prints"),
        ("sh", "whence app\n", "stays running"),
    ],
)
def test_page_do_with_a_wrong_block_raises_assertion_error(
    language, text, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=said) as failed:
        Page("README.md").do(Block(language, text, 7))
    assert "README.md:" in str(failed.value) or said == "stays running"


def test_page_do_with_a_misspelt_plan_field_raises_bad_plan():
    from whence.core.errors import BadPlan

    with pytest.raises(BadPlan, match=r"README.md:7.*methds"):
        Page("README.md").do(
            Block("toml", 'model = "m"\ndata = "d"\nmethds = ["attcat"]\n', 7),
        )


def test_traceback_of_a_failing_python_block_shows_page_and_line():
    with pytest.raises(ZeroDivisionError) as failed:
        Page("README.md").do(Block("python", "a = 1\na / 0\n", 7))
    last = failed.traceback[-1]
    assert (last.path.name, last.lineno + 1) == ("README.md", 8)
