"""Fixtures of all tests: no network, folders of real models and published figures, and warm whence processes."""

import os
from pathlib import Path

import pytest

# Before transformers is imported: no test may reach for the Hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Some virtual machines announce matrix instructions (AMX) and then refuse them: any bfloat16 model dies there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real models and data that lies beside the repository, or skip."""
    if not SHARED.is_dir():
        pytest.skip("no folder ../shared with real models and data beside the repository")
    return SHARED


@pytest.fixture(scope="session")
def golden() -> Path:
    """Return the folder of the authors' own figures."""
    return ROOT / "tests" / "parity" / "golden"


@pytest.fixture(scope="session")
def warm():
    """Return what starts real processes of whence at once; tests that use it are of the group "app", to share one."""
    from tests.fork_server import ForkServer

    found = ForkServer()
    yield found
    found.close()
