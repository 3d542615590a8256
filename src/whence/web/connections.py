"""The connections of a server: those on which nobody asks anything are closed, so that they cannot use up all."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 30.0  # until a connection must have asked something
MOST = 200  # connections at once, before idle ones are closed


class ImpatientProtocol(H11Protocol):
    """HTTP over a connection that is closed if nobody asks on it, at once where there are too many."""

    def connection_made(self, transport: Any) -> None:
        """Take a connection, make room for it if need be, and begin to wait."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            for other in list(self.connections):
                if other is not self and isinstance(other, ImpatientProtocol):
                    other.close_if_idle()
        self._waiting: asyncio.TimerHandle = self.loop.call_later(SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._waiting.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        """Close a connection on which nothing was asked; one that has asked is waited for as long as it is kept."""
        cycle: Any = self.cycle  # None until something was asked, whatever its type says
        if cycle is None:
            self.transport.close()

    def close_if_idle(self) -> None:
        """Close the connection unless a request is being answered on it."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.close()
