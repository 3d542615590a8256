"""The widget itself: state that goes both ways, and questions of the page that Python answers."""

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from whence.core.errors import WhenceError
from whence.methods import method
from whence.report.embed import built
from whence.widget.asked import fault
from whence.widget.desk import Desk
from whence.widget.state import NOTHING, moved


class Workbench(anywidget.AnyWidget):
    """The workbench in a cell.

    `state` is the whole view; set some of it, and the view moves. `selection` is what is chosen there: {"tokens":
    numbers of the pinned tokens, "edges": [[layer, head, source, to], ..] as shown, "head": [layer, head] or None}.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    _methods = traitlets.List(traitlets.Unicode()).tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    selection = traitlets.Dict(dict(NOTHING)).tag(sync=True)

    def __init__(self, desk: Desk, state: Mapping[str, Any]) -> None:
        super().__init__(
            _esm=built("embed.js"),
            _css=built("embed.css"),
            _methods=method.names(),
            state=moved({}, state),
        )
        self._desk = desk
        self.on_msg(self._heard)

    @traitlets.validate("state")
    def _whole(self, proposal: Any) -> dict[str, Any]:
        return moved(self.state, proposal["value"])

    def _heard(self, widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
        """Answer a question of the page; whatever goes wrong is an answer too."""
        number = content.get("id")

        def tell(done: int, total: int) -> None:
            self.send({"id": number, "job": _job(number, content, done, total)})

        try:
            answer = self._desk.answer(content.get("ask", ""), content.get("asked", {}), tell)
            arrays = answer if content.get("ask") == "tensors" else {}
            facts = [
                {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
                for name, array in arrays.items()
            ]
            said = {"tensors": facts} if arrays else {"answer": answer}
            self.send({"id": number, **said}, [array.tobytes() for array in arrays.values()])
        except BaseException as error:  # else the page would wait for ever
            self.send({"id": number, "error": fault(error)})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Add what shows where no widget can: on a page made of the notebook, or where it is stored."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return bundle
        data, metadata = bundle
        data = {**data, "text/plain": repr(self)}
        try:
            static = self._desk.static()
        except WhenceError:  # the workbench itself says why
            static = None
        return (data if static is None else {**data, "text/html": static}), metadata

    def __repr__(self) -> str:
        return f"<Workbench {self._desk}>"


def _job(number: Any, content: Mapping[str, Any], done: int, total: int) -> dict[str, Any]:
    return {
        "id": str(number),
        "kind": str(content.get("ask")),
        "model": "",
        "state": "running",
        "position": 0,
        "done": done,
        "total": total,
        "remaining": None,
        "result": None,
        "error": None,
    }
