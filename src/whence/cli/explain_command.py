"""The command `whence explain`: one text or image explained, or a generated answer (`--generate`)."""

from pathlib import Path
from typing import Any

from whence.cli import options
from whence.cli.options import INPUT, OUTPUT, option
from whence.core.errors import BadParameter
from whence.core.files import check_writable, write_bytes, write_text


def explain(
    given: options.InputOptions,
    model: options.ModelOptions,
    methods: options.MethodOptions,
    output: options.OutputOptions,
    target: options.TargetsOption = None,
    generate: int | None = option(
        INPUT,
        "Let a language model go on by N tokens, and show what of the prompt each came from.",
        metavar="N",
        min=1,
    ),
    granularity: str | None = option(
        INPUT,
        "With --generate, the pieces of the prompt: token (default), word, sentence, paragraph, or passage, "
        "marked as [[...]].",
    ),
    top: int = option(OUTPUT, "How many words or patches to list.", metavar="K", min=1, default=8),
    out: Path | None = option(
        OUTPUT, "Write the maps over the picture, side by side.", metavar="FILE.png"
    ),
) -> None:
    """Explain one prediction: which words, or which parts of a picture, spoke for it, and which against.

    Examples:

        whence explain "a gripping, beautifully acted film"

        whence explain "not a bad film" --method attcat --method leave_one_out --param remove=delete

        whence explain "Who lives here?" --pair "Anna lives in Paris." --model some/qa-model --target start

        whence explain "the team won" --labels sports,politics --model some/nli-model

        whence explain --image photo.jpg --model some/vit-model --target cat --target dog --out maps.png

        whence explain "The capital of France is" --generate 5 --model some/language-model --granularity word

        cat review.txt | whence explain - --model path/to/model --truncate --json
    """
    if generate is not None:
        beside: dict[str, Any] = {"image": given.image, "pair": given.pair, "target": target}
        beside |= {"at": given.at, "labels": given.labels, "template": given.template, "out": out}
        if named := [name for name, value in beside.items() if value is not None]:
            raise BadParameter(
                f"--{named[0]} means nothing beside --generate. Leave one of them out."
            )
        _generate(generate, granularity or "token", given, model, methods, output)
        return
    if granularity is not None:
        raise BadParameter(
            f"--granularity {granularity} is for --generate N, which divides the prompt. Give both, or leave it out."
        )
    if out is not None:
        _check_image_path(out, given)
    with given.open(model, methods) as (explainer, source, how, console):
        choices = list(dict.fromkeys(target)) if target else [None]
        results = [explainer.explain(source, target=choice, **how) for choice in choices]
        groups = [group for result in results for group in result.group_by_input()]
        if output.html is not None:
            from whence.explain.page import render_page

            write_text(output.html, render_page(groups))
    from whence.explain.word_scores import merge_payloads, wrap_payloads

    payloads = [
        merge_payloads([explanation.to_display_dict() for explanation in group]) for group in groups
    ]
    if out is not None:
        from whence.render.image_maps import render_image_sheet_png

        write_bytes(out, render_image_sheet_png(payloads))
    kind = "targets" if len(choices) > 1 else None if results[0].of_one else "entities"
    if output.as_json:
        options.print_json(payloads[0] if kind is None else wrap_payloads(payloads, kind))
        return
    from rich.console import Console

    from whence.explain.report import build_document
    from whence.render.terminal import TerminalDocument

    listed = kind == "entities" and len(payloads) > 1
    Console().print(TerminalDocument(build_document(payloads, top, listed=listed)))
    options.print_paths(console, output.html, out)


def _check_image_path(path: Path, given: options.InputOptions) -> None:
    """Raise if the image maps cannot be written to a path, before any work."""
    if not given.is_image:
        raise BadParameter(
            f"--out writes maps over a picture, and a text is explained here. Got {str(path)!r}; --html FILE writes "
            "a page."
        )
    if path.suffix.lower() != ".png":
        raise BadParameter(
            f"--out writes a PNG file. Got {str(path)!r}; give a name that ends in .png."
        )
    check_writable(path)


def _generate(
    tokens: int,
    granularity: str,
    given: options.InputOptions,
    model: options.ModelOptions,
    methods: options.MethodOptions,
    output: options.OutputOptions,
) -> None:
    """Generate an answer, explain each of its tokens, and print the result."""
    from whence.data.words import check_granularity, parse_passage_marks

    pieces = check_granularity(granularity)
    if pieces == "passage":
        parse_passage_marks(given.text or "")
    if len(methods.names) > 1:
        raise BadParameter(
            f"--generate takes one --method at a time. Got {', '.join(methods.names)}."
        )
    if len(given.answer or ()) > 1:
        raise BadParameter(
            "--generate takes one --answer. For a contrast of two, leave --generate out."
        )
    with given.open(model, methods) as (explainer, source, how, console):
        (name,) = how["method"]
        own = {key: how[key] for key in ("answer", "of", "truncate", "progress")}
        generation = explainer.generate(
            source, tokens, method=name, params=how["params"][name], granularity=pieces, **own
        )
    output.print(generation, console)
