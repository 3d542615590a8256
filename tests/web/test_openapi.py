"""The description of the server: it is what the page's types are made from, and the server keeps to it."""

import build_openapi
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.web.serving import bearer, served
from whence.web.app import described
from whence.web.settings import Settings

SCHEMA = schemathesis.openapi.from_dict(described().openapi())
SERVED = Settings(models=("reviews", "decoy"))
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module")
def home():
    with served(SERVED) as address:
        yield address


def _to_a_model(body):
    """Name models that are there: no request that is made up does, and few would get past that."""
    if isinstance(body, dict):
        for name in {"model", "a", "b"} & body.keys():
            body[name] = "reviews"
        if "methods" in body:
            body["methods"] = ["attcat"]
        _to_a_model(body.get("input"))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_the_server_keeps_to_its_description(home, operation):
    @settings(
        max_examples=12,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(data=st.data())
    def kept(data):
        case = data.draw(operation.as_strategy())
        if data.draw(st.booleans()):
            _to_a_model(case.body)
        case.call_and_validate(base_url=home, headers=bearer(SERVED), checks=CHECKS)

    kept()


def test_the_description_in_the_repository_is_that_of_the_code():
    assert build_openapi.FILE.read_text(encoding="utf-8") == build_openapi.described(), (
        "run scripts/build_openapi.py"
    )
