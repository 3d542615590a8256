"""Fixtures of the fault tests: one launcher for all, and the store of one undisturbed run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.run_harness import Launcher, Scene, contents


@pytest.fixture(scope="session")
def scene(tmp_path_factory) -> Iterator[Scene]:
    """Return a place for runs."""
    launcher = Launcher()
    yield Scene(launcher, tmp_path_factory.mktemp("faults"))
    launcher.close()


@pytest.fixture(scope="session")
def undisturbed(scene) -> Path:
    """Return the store of a run that nothing happened to."""
    out = scene.folder / "undisturbed"
    assert scene.run(out) == 0, scene.told(out)
    return out


@pytest.fixture(scope="session")
def expected_contents(undisturbed) -> dict[str, bytes]:
    """Return what every store must hold in the end."""
    return contents(undisturbed)
