"""The command `whence explain`: one text or image explained, or a generated answer (`--generate`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from whence.cli import options
from whence.cli.options import InputSpec
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadParameter
from whence.core.files import check_writable, write_bytes, write_text
from whence.core.types import OutputScale
from whence.render.colour import merge_payloads, wrap_payloads

if TYPE_CHECKING:
    from whence.explain.explainer import Explainer
    from whence.explain.explanation import Explanation

Tokens = Annotated[
    int | None,
    typer.Option(
        "--generate",
        metavar="N",
        min=1,
        help="Let a language model go on by N tokens, and show what of the prompt each came from.",
    ),
]
Granularity = Annotated[
    str | None,
    typer.Option(
        help="With --generate, the pieces of the prompt: token (default), word, sentence, paragraph, or passage, "
        "marked as [[...]]."
    ),
]
Answer = Annotated[
    list[str] | None,
    typer.Option(
        help="Explain this answer of a language model as a whole; given twice, the first rather than the second. "
        "With --generate, token by token."
    ),
]


def parse_answers(answers: list[str] | None) -> str | tuple[str, str] | None:
    """Return one answer, or a pair of answers for a contrast."""
    if not answers:
        return None
    if len(answers) > 2:
        raise BadParameter(
            f"--answer can be given once, or twice for a contrast. Got {len(answers)}."
        )
    return answers[0] if len(answers) == 1 else (answers[0], answers[1])


def resolve_prompt(spec: InputSpec, beside: Mapping[str, Any]) -> str:
    """Return the prompt of --generate; raise if an option that does not apply is given."""
    beside = {"--image": spec.image, "--pair": spec.pair, **beside}
    if named := [name for name, value in beside.items() if value is not None]:
        raise BadParameter(f"{named[0]} means nothing beside --generate. Leave one of them out.")
    assert spec.text is not None  # `parse_input` requires a text or a picture
    return spec.text


def check_granularity_unused(granularity: str | None) -> None:
    """Raise BadParameter if --granularity is given without --generate."""
    if granularity is not None:
        raise BadParameter(
            f"--granularity {granularity} is for --generate N, which divides the prompt. Give both, or leave it out."
        )


def generate_and_explain(
    text: str,
    tokens: int,
    *,
    model: str,
    methods: list[str],
    param: list[str] | None,
    answer: list[str] | None,
    granularity: str | None,
    of: str,
    device: str | None,
    dtype: str | None,
    checkpoint: bool,
    revision: str | None,
    truncate: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Generate an answer, explain each of its tokens, and print the result."""
    from whence.data.words import check_granularity, parse_passage_marks

    pieces = check_granularity(granularity or "token")
    if pieces == "passage":
        parse_passage_marks(text)
    if len(methods) > 1:
        raise BadParameter(f"--generate takes one --method at a time. Got {', '.join(methods)}.")
    continuation = parse_answers(answer)
    if isinstance(continuation, tuple):
        raise BadParameter(
            "--generate takes one --answer. For a contrast of two, leave --generate out."
        )
    params = options.parse_params(param)
    if html is not None:
        check_writable(html)
    with show_progress(f"loading {model}") as (console, report):
        with pause_garbage_collection():
            from whence.explain.explainer import load
            from whence.explain.request import check_default_parameters, resolve_methods

            if methods:
                resolve_methods(methods, params, options.PLACEHOLDER_REPLACEMENTS, from_text=True)
            else:
                check_default_parameters(params, options.PLACEHOLDER_REPLACEMENTS)
            explainer = load(
                model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
            )
        methods = methods or [explainer.default_method()]
        (request,) = resolve_methods(methods, params, explainer.fillers, from_text=True)
        generation = explainer.generate(
            text,
            tokens,
            method=request.name,
            params=request.params,
            answer=continuation,
            granularity=pieces,
            of=cast(OutputScale, of),
            truncate=truncate,
            progress=report,
        )
    options.print_result(generation, console, html=html, as_json=as_json)


def explain(
    text: options.Text = None,
    image: options.Image = None,
    pair: options.Pair = None,
    model: options.OptionalModel = None,
    method: options.Method = None,
    target: options.TargetsOption = None,
    at: options.At = None,
    labels: options.Labels = None,
    template: options.Template = None,
    answer: Answer = None,
    generate: Tokens = None,
    granularity: Granularity = None,
    param: options.Param = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="K", help="How many words or patches to list.")
    ] = 8,
    as_json: options.AsJson = False,
    html: options.Html = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Write the maps over the picture, side by side."),
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    checkpoint: options.Checkpoint = False,
    of: options.OutputKind = "logit",
    revision: options.Revision = None,
    truncate: options.Truncate = False,
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
    spec = options.parse_input(text, pair, image, model)
    if generate is not None:
        beside = {
            "--target": target,
            "--at": at,
            "--labels": labels,
            "--template": template,
            "--out": out,
        }
        generate_and_explain(
            resolve_prompt(spec, beside),
            generate,
            model=spec.model,
            methods=method or [],
            param=param,
            answer=answer,
            granularity=granularity,
            of=of,
            device=device,
            dtype=dtype,
            checkpoint=checkpoint,
            revision=revision,
            truncate=truncate,
            html=html,
            as_json=as_json,
        )
        return
    check_granularity_unused(granularity)
    params = options.parse_params(param)
    if html is not None:
        check_writable(html)
    options.check_image_output(out, spec)
    with show_progress(f"loading {spec.model}") as (console, report):
        with pause_garbage_collection():
            from whence.explain.explainer import load

            spec.check_methods(method, params)
            picture = spec.read_image()
            explainer = load(
                spec.model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
            )
        source, beside = spec.build_arguments(explainer, picture, method, params)
        groups, kind = _explain_targets(
            explainer,
            source,
            target,
            of=cast(OutputScale, of),  # checked by TargetSpec
            truncate=truncate,
            at=at,
            labels=options.parse_labels(labels),
            template=template,
            answer=parse_answers(answer),
            progress=report,
            **beside,
        )
        if html is not None:
            from whence.explain.page import render_page

            write_text(html, render_page([list(group.values()) for group in groups]))
    payloads = [
        merge_payloads([explanation.to_display_dict() for explanation in group.values()])
        for group in groups
    ]
    if out is not None:
        from whence.render.image_maps import render_image_sheet_png

        write_bytes(out, render_image_sheet_png(payloads))
    if as_json:
        options.print_json(payloads[0] if kind is None else wrap_payloads(payloads, kind))
        return
    from rich.console import Console

    from whence.explain.report import build_document
    from whence.render.terminal import render_headline_list

    if kind == "entities" and len(payloads) > 1:
        Console().print(render_headline_list(payloads))
    Console().print(build_document(payloads, top).to_terminal())
    for path in (html, out):
        if path is not None:
            console.print(f"wrote {path}", style="dim", highlight=False, markup=False)


def _explain_targets(
    explainer: "Explainer", source: Any, targets: list[str] | None, **how: Any
) -> tuple[list[dict[str, "Explanation"]], str | None]:
    """Return the explanations of each target, and the kind of list: targets, entities or None."""
    choices: list[str | None] = [*dict.fromkeys(targets)] if targets else [None]
    results = [explainer.explain(source, target=target, **how) for target in choices]
    groups = [
        {explanation.method: explanation for explanation in group}
        for result in results
        for group in result.group_by_input()
    ]
    if len(choices) > 1:
        return groups, "targets"
    return groups, None if results[0].of_one else "entities"
