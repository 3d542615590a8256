"""The command `whence app`: serve the local page and open it in a browser."""

import os
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.cli import options
from whence.cli.options import DATA, MODEL, option
from whence.cli.progress_bar import pause_garbage_collection
from whence.core.errors import BadParameter, CannotServe, WhenceError

if TYPE_CHECKING:
    from whence.app.settings import Settings

PORT = 8765
_MAX_PORTS = 50  # ports tried, counted from PORT


SERVER = "Server"


def serve_app(
    model: list[str] | None = option(
        MODEL,
        "A built-in model, a folder, or a Hugging Face id; may be given several times. By default all built-in "
        "models, `reviews` first.",
    ),
    compare: tuple[str, str] | None = option(
        MODEL, "Two models to open the comparison with.", metavar="BASE TUNED"
    ),
    allow_load: bool = option(
        MODEL, "Let the page load models that are not on the list.", "--allow-load", default=False
    ),
    device: options.Device = None,
    dtype: options.Dtype = None,
    data: list[Path] | None = option(
        DATA, "A data set to look at; may be given several times.", metavar="FILE"
    ),
    text: options.TextColumn = None,
    pair: options.PairColumn = None,
    label: options.LabelColumn = None,
    results: list[Path] | None = option(
        DATA,
        "A stored audit, evaluation, comparison, card or explanation, or a folder of them; may be given several "
        "times.",
        metavar="PATH",
    ),
    runs: Path | None = option(
        DATA, "A run, or a folder of runs, to read; also while they are written.", metavar="DIR"
    ),
    port: int | None = option(
        SERVER, f"The port; by default {PORT}, or the next one that is free.", min=0, max=65535
    ),
    host: str = option(
        SERVER,
        "Listen at this address; by default other machines cannot reach the app.",
        default="127.0.0.1",
    ),
    seconds: float = option(
        SERVER, "How long a question may wait for its answer.", min=1, default=120
    ),
    open: bool | None = option(
        SERVER, "Open the page in a browser; by default if there is one.", "--open/--no-open"
    ),
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
        with pause_garbage_collection():
            from whence.app.access_token import resolve_token
            from whence.app.routes import find_built_page
            from whence.app.settings import Settings

            find_built_page()
            columns: dict[str, Any] = {"text": text, "pair": pair, "label": label}
            named = [name for name, column in columns.items() if column is not None]
            if named and not data:
                raise BadParameter(
                    f"--{named[0]} names a column of a data set. Give one: --data FILE."
                )
            models, model_pair = _resolve_models(model, compare)
            settings = Settings(
                models=models,
                compare=model_pair,
                data=tuple(data or ()),
                **columns,
                results=tuple(results or ()),
                runs=runs,
                host=host,
                port=listening.getsockname()[1],
                token=resolve_token(),
                allow_load=allow_load,
                device=device,
                dtype=dtype,
                seconds=seconds,
            )
        fragment = "" if compare is None else "#/compare"
        if open is None:
            graphical = sys.platform in ("darwin", "win32") or bool(
                os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
            )
            open = graphical and sys.stdout.isatty() and not os.environ.get("SSH_CONNECTION")
        _run_server(settings, listening, fragment, open)


def _resolve_models(
    models: list[str] | None, compare: tuple[str, str] | None
) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Return the models to serve and the pair to compare; by default the built-in ones."""
    from whence.models.model_files import BUILTIN

    for name in (*(models or []), *(compare or ())):
        if name.startswith("-"):  # an option, taken for a model because a name is missing
            raise BadParameter(
                f"{name!r} is an option and no model: --model takes one name, --compare takes two, BASE and TUNED."
            )

    if not models and compare is None:
        return tuple(BUILTIN), ("reviews-base", "reviews")
    # The tuned model of a comparison comes first: it is the one to explain.
    return tuple(dict.fromkeys([*(models or []), *reversed(compare or ())])), compare


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a socket listening at the given port, or at the first free one."""
    ports = [port] if port is not None else [*range(PORT, PORT + _MAX_PORTS)]
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    except (OSError, UnicodeError):
        raise CannotServe(
            f"There is no host {host!r}. Leave --host out to serve this machine alone."
        ) from None
    why = ""
    for candidate in ports:
        listening = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            # On POSIX this allows a recently closed port, not one that is in use.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)
        except OSError as error:
            listening.close()
            why = error.strerror or str(error)
        else:
            return listening
    raise CannotServe(
        f"None of the ports {ports[0]} to {ports[-1]} of {host} can be listened at: {why}. Give one: --port P."
        if port is None
        else f"Port {port} of {host} cannot be listened at: {why}. Give another, or leave --port out to get the next "
        "free one."
    )


def _run_server(settings: "Settings", listening: socket.socket, fragment: str, open: bool) -> None:
    alone = len(settings.models) == 1 and not settings.allow_load
    missing: list[WhenceError] = []

    def say(problem: object) -> None:
        print(f"whence: {problem}", file=sys.stderr, flush=True)

    def handle_load_failure(error: Exception) -> None:
        if alone and isinstance(error, WhenceError):
            missing.append(error)
            server.should_exit = True
        else:
            say(f"{settings.models[0]} cannot be loaded: {error}")

    with pause_garbage_collection():
        import uvicorn

        from whence.app.server import IdleTimeoutProtocol, create_app
        from whence.app.settings import LOOPBACK_HOSTS

        application = create_app(settings, handle_load_failure)
    for problem in application.state.app_state.data.list_problems():
        say(problem)
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
            http=IdleTimeoutProtocol,
        )
    )
    host = socket.gethostname() if settings.host in ("0.0.0.0", "::") else settings.host
    host = f"[{host}]" if ":" in host else host
    address = f"http://{host}:{settings.port}/?token={settings.token}{fragment}"
    print(f"whence is at {address}")
    if settings.host not in LOOPBACK_HOSTS:
        note = "Other machines can reach it with this address."
        print(f"{note} What goes over the network is not encrypted.")
    print("Ctrl-C ends it.", flush=True)
    if open:
        # In a thread: with some browsers the call returns only when they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    ended = application.state.app_state.close()
    if missing:
        raise missing[0]
    print("\nwhence has stopped.", flush=True)
    if not ended:
        # A model in the middle of a long step cannot be interrupted: exit without waiting for its thread.
        sys.stderr.flush()
        os._exit(0)
