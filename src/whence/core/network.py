"""A check of whether the Hugging Face Hub can be reached."""

import os
import socket
from urllib.parse import urlsplit


def is_hub_unreachable() -> bool:
    """Return whether the Hub's address does not answer within 3 seconds.

    The Hub's own client would retry for half a minute. Earlier downloads are still found in the cache.
    """
    from huggingface_hub.constants import ENDPOINT

    proxies = (
        v for k, v in os.environ.items() if k.lower() in ("https_proxy", "all_proxy") and "//" in v
    )
    address = urlsplit(next(proxies, ENDPOINT))
    try:
        port = address.port or (443 if address.scheme == "https" else 80)
        socket.create_connection((address.hostname or "", port), timeout=3).close()
    except (OSError, ValueError):
        return True
    return False
