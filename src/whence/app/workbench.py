"""Notebook widget class `Workbench`: view state in sync with the page, and its messages answered."""

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from whence.app.widget import NotebookSession, describe_fault, update_state
from whence.core.errors import WhenceError
from whence.explain.page import read_front_end_file
from whence.methods import method


class Workbench(anywidget.AnyWidget):
    """The notebook widget of the workbench.

    `state` is the view state; setting some of its fields moves the view. `selection` holds the chosen items: {"tokens":
    numbers of the pinned tokens, "edges": [[layer, head, source, to], ..] as shown, "head": [layer, head] or None}.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    _methods = traitlets.List(traitlets.Unicode()).tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    selection: Any = traitlets.Dict({"tokens": [], "edges": [], "head": None}).tag(sync=True)

    def __init__(self, session: NotebookSession, state: Mapping[str, Any]) -> None:
        super().__init__(
            _esm=read_front_end_file("embed.js"),
            _css=read_front_end_file("embed.css"),
            _methods=method.names(),
            state=update_state({}, state),
        )
        self._session = session
        self.on_msg(self._answer_message)

    @traitlets.validate("state")
    def _validate_state(self, proposal: Any) -> dict[str, Any]:
        return update_state(self.state, proposal["value"])

    def _answer_message(self, widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
        """Answer a request of the page; an error is sent as an answer too."""
        number, ask = content.get("id"), content.get("ask", "")

        def send_progress(done: int, total: int) -> None:
            job = {"id": str(number), "kind": ask, "model": "", "state": "running", "position": 0}
            rest = dict.fromkeys(("remaining", "result", "error"))
            self.send({"id": number, "job": {**job, "done": done, "total": total, **rest}})

        try:
            answer = self._session.answer(ask, content.get("asked", {}), send_progress)
            arrays = answer if ask == "tensors" else {}
            facts = [
                {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
                for name, array in arrays.items()
            ]
            reply = {"tensors": facts} if arrays else {"answer": answer}
            self.send({"id": number, **reply}, [array.tobytes() for array in arrays.values()])
        except BaseException as error:  # otherwise the page would wait for ever
            self.send({"id": number, "error": describe_fault(error)})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Add static HTML for places without widgets: exported and stored notebooks."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return bundle
        data, metadata = bundle
        data = {**data, "text/plain": repr(self)}
        try:
            static = self._session.render_static()
        except WhenceError:  # the workbench itself shows the error
            static = None
        return (data if static is None else {**data, "text/html": static}), metadata

    def __repr__(self) -> str:
        return f"<Workbench {self._session}>"
