"""Plain data in a file that knows whether it is whole: any flipped bit shows."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any


def sealed(facts: Mapping[str, Any]) -> bytes:
    """Write plain data as JSON that ends with its own checksum; equal data gives equal bytes."""
    plain = {name: value for name, value in facts.items() if name != "sha256"}
    body = _written(plain)
    # The checksum stands last, whatever else there is: "{...}" becomes "{..., sha256}".
    seal = json.dumps(sha256(body.encode()).hexdigest())
    head = body[: -len("\n}")]
    return f'{head}{"," if plain else ""}\n "sha256": {seal}\n}}\n'.encode()


def unsealed(raw: bytes) -> dict[str, Any]:
    """Read it again; a ValueError where it is not what was written."""
    try:
        facts = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(facts, dict) or sealed(facts) != raw:
        raise ValueError("its checksum does not fit")
    del facts["sha256"]
    return facts


def _written(plain: Mapping[str, Any]) -> str:
    return json.dumps(plain, sort_keys=True, indent=1, ensure_ascii=True) if plain else "{\n}"
