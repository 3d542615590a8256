"""`whence app`: serve the page on this machine, and open it."""

import os
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.evaluate import LabelColumn, PairColumn, TextColumn
from whence.core.errors import BadParameter, CannotServe, WhenceError

if TYPE_CHECKING:
    from whence.web.settings import Settings

PORT = 8765
_TRIED = 50  # ports after the first one

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="A built-in model, a folder, or a Hugging Face id; may be given several times. By default all built-in "
        "models, `reviews` first.",
    ),
]
Compared = Annotated[
    tuple[str, str] | None,
    typer.Option("--compare", metavar="BASE TUNED", help="Two models to open the comparison with."),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help=f"The port; by default {PORT}, or the next one that is free."
    ),
]
Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open", help="Open the page in a browser; by default if there is one."
    ),
]
Data = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A data set to look at; may be given several times."),
]
Host = Annotated[
    str,
    typer.Option(help="Listen at this address; by default other machines cannot reach the app."),
]
AllowLoad = Annotated[
    bool, typer.Option("--allow-load", help="Let the page load models that are not on the list.")
]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="A stored audit, evaluation, comparison, card or explanation, or a folder of them; may be given several "
        "times.",
    ),
]
Runs = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="A run, or a folder of runs, to read; also while they are written."
    ),
]
Seconds = Annotated[float, typer.Option(min=1, help="How long a question may wait for its answer.")]


def app(
    model: Models = None,
    compare: Compared = None,
    port: Port = None,
    open: Open = None,
    data: Data = None,
    text: TextColumn = None,
    pair: PairColumn = None,
    label: LabelColumn = None,
    host: Host = "127.0.0.1",
    allow_load: AllowLoad = False,
    results: Results = None,
    runs: Runs = None,
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    seconds: Seconds = 120,
) -> None:
    """See it: explanations, flows, trust and comparisons on a page in the browser, served from this machine.

    It prints an address with a token in it: whoever opens it there, or sends the token, is answered, and nobody else.
    It ends with Ctrl-C. Nothing leaves this machine, and nothing is kept.

    Examples:

        whence app

        whence app --model path/to/model --data reviews.tsv --text body --label stars

        whence app --compare reviews-base reviews

        whence app --runs runs
    """
    with _listen(host, port) as listening:
        with importing():
            from whence.web.routes.page import built
            from whence.web.settings import Settings
            from whence.web.tokens import choose_token

            built()
            _check_names([*(model or []), *(compare or ())])
            _check_columns(data, {"--text": text, "--pair": pair, "--label": label})
            models, both = _chosen(model, compare)
            settings = Settings(
                models=models,
                compare=both,
                data=tuple(data or ()),
                text=text,
                pair=pair,
                label=label,
                results=tuple(results or ()),
                runs=runs,
                host=host,
                port=listening.getsockname()[1],
                token=choose_token(),
                allow_load=allow_load,
                device=device,
                dtype=dtype,
                seconds=seconds,
            )
        place = "" if compare is None else "#/compare"
        _serve(settings, listening, place, _is_there_a_browser() if open is None else open)


def _check_names(names: list[str]) -> None:
    """Refuse an option that was taken for a model, because a name before it is missing."""
    for name in names:
        if name.startswith("-"):
            raise BadParameter(
                f"{name!r} is an option and no model: --model takes one name, --compare takes two, BASE and TUNED."
            )


def _check_columns(data: list[Path] | None, columns: dict[str, str | None]) -> None:
    """Refuse the name of a column where there is no table that could have it."""
    named = [option for option, column in columns.items() if column is not None]
    if named and not data:
        raise BadParameter(f"{named[0]} names a column of a data set. Give one: --data FILE.")


def _chosen(
    models: list[str] | None, compare: tuple[str, str] | None
) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Return the list of models, and the two to compare: without any, the built-in ones."""
    from whence.models.catalogue import BUILTIN

    if not models and compare is None:
        return tuple(BUILTIN), ("reviews-base", "reviews")
    # Of two that are compared the tuned one is the one to explain.
    return tuple(dict.fromkeys([*(models or []), *reversed(compare or ())])), compare


def _listen(host: str, port: int | None) -> socket.socket:
    """Take the port that was asked for, or the first that is free."""
    wanted = [port] if port is not None else [*range(PORT, PORT + _TRIED)]
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    except (OSError, UnicodeError):
        raise CannotServe(
            f"There is no host {host!r}. Leave --host out to serve this machine alone."
        ) from None
    why = ""
    for one in wanted:
        listening = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            # A port that was just closed may be taken again; one that is listened to may not.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, one))
            listening.listen(128)
        except OSError as error:
            listening.close()
            why = error.strerror or str(error)
        else:
            return listening
    if port is None:
        raise CannotServe(
            f"None of the ports {wanted[0]} to {wanted[-1]} of {host} can be listened at: {why}. Give one: --port P."
        )
    raise CannotServe(
        f"Port {port} of {host} cannot be listened at: {why}. Give another, or leave --port out to get the next free "
        "one."
    )


def _is_there_a_browser() -> bool:
    """Whether somebody sits here to see it."""
    if not sys.stdout.isatty() or os.environ.get("SSH_CONNECTION"):
        return False
    graphical = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    return graphical


def _serve(settings: "Settings", listening: socket.socket, place: str, open: bool) -> None:
    alone = len(settings.models) == 1 and not settings.allow_load
    missing: list[WhenceError] = []

    def failed(error: Exception) -> None:
        if alone and isinstance(error, WhenceError):
            missing.append(error)
            server.should_exit = True
        else:
            print(
                f"whence: {settings.models[0]} cannot be loaded: {error}",
                file=sys.stderr,
                flush=True,
            )

    with importing():
        import uvicorn

        from whence.web.app import create_app
        from whence.web.connections import ImpatientProtocol
        from whence.web.settings import LOOPBACK

        application = create_app(settings, failed)
    for problem in application.state.desk.data.problems():
        print(f"whence: {problem}", file=sys.stderr, flush=True)
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=30,
            ws="none",
            http=ImpatientProtocol,
        )
    )
    address = _address(settings, place)
    print(f"whence is at {address}")
    if settings.host not in LOOPBACK:
        print(
            "Other machines can reach it with this address. What goes over the network is not encrypted."
        )
    print("Ctrl-C ends it.", flush=True)
    if open:
        # Some browsers answer only when they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    ended = application.state.desk.close()
    if missing:
        raise missing[0]
    print("\nwhence has stopped.", flush=True)
    if not ended:
        # A model in the middle of a long step cannot be interrupted, and nobody waits for it.
        sys.stderr.flush()
        os._exit(0)


def _address(settings: "Settings", place: str) -> str:
    host = settings.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{settings.port}/?token={settings.token}{place}"
