"""How code blocks are found and judged: a page that is wrong must fail."""

import pytest

from tests.docs import shell
from tests.docs.blocks import (
    Block,
    agrees,
    blocks,
    commands,
    dialogue,
    in_shell,
    without_comment,
)
from tests.docs.test_blocks import Page

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


def test_blocks_have_their_line_their_text_and_their_marks():
    first, second, third = blocks(PAGE)
    assert first == Block("python", "print(why)\n", 6, ("why", "results"), "needs a GPU")
    assert second == Block("sh", "ls  # what is there\n", 12)
    assert third == Block("text", "```python\nthis is no code\n```\n", 16)


def test_a_mark_holds_for_the_next_block_alone():
    text = "<!-- not run: GPU -->\n\nSomething else.\n\n```sh\nls\n```\n"
    (only,) = blocks(text)
    assert only.not_run is None


def test_commands_on_several_lines_are_one():
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
def test_comments(line, bare):
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
def test_what_needs_a_shell(text, needs):
    assert in_shell(text) is needs


def test_a_dialogue_and_what_is_said():
    told = dialogue(Block("console", "$ ls  # here\na\nb\n$ echo $?\n0\n", 3))
    assert [(one.text, one.line, one.expected) for one in told] == [
        ("ls", 3, "a\nb\n"),
        ("echo $?", 6, "0\n"),
    ]
    with pytest.raises(ValueError, match="begins with a command"):
        dialogue(Block("console", "a\n", 3))


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
def test_what_is_printed_is_compared(expected, printed, same):
    assert agrees(expected, printed) is same


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
def test_a_command_that_is_not_run_must_be_possible(text, said):
    assert said in str(shell.wrong(text))


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
def test_and_may_be(text):
    assert shell.wrong(text) is None


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
def test_a_wrong_block_fails(language, text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=said) as failed:
        Page("README.md").do(Block(language, text, 7))
    assert "README.md:" in str(failed.value) or said == "stays running"


def test_a_plan_is_read_as_one():
    from whence.core.errors import BadPlan

    with pytest.raises(BadPlan, match=r"README.md:7.*methds"):
        Page("README.md").do(
            Block("toml", 'model = "m"\ndata = "d"\nmethds = ["attcat"]\n', 7),
        )


def test_a_failure_in_python_shows_the_page_and_the_line():
    with pytest.raises(ZeroDivisionError) as failed:
        Page("README.md").do(Block("python", "a = 1\na / 0\n", 7))
    last = failed.traceback[-1]
    assert (last.path.name, last.lineno + 1) == ("README.md", 8)
