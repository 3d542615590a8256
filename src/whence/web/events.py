"""A job's progress as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from whence.web.jobs import ENDED

_EVERY = 0.1  # seconds between two looks
_ALIVE = 15.0  # seconds of silence after which a comment keeps the connection open


async def events(told: Callable[[], dict[str, Any]]) -> AsyncIterator[str]:
    """Yield an event each time that something changed, until the job has ended."""
    last, spoken = None, time.monotonic()
    while True:
        now = told()
        news = {name: value for name, value in now.items() if name != "remaining"}
        if news != last:
            yield f"data: {json.dumps(now)}\n\n"
            last, spoken = news, time.monotonic()
        elif time.monotonic() - spoken > _ALIVE:
            yield ": still there\n\n"
            spoken = time.monotonic()
        if now["state"] in ENDED:
            return
        await asyncio.sleep(_EVERY)
