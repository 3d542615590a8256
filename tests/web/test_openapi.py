"""OpenAPI description: the server conforms to it, and the stored file is that of the code."""

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

from tests.web.serving import bearer, serve_in_thread
from whence.app.server import build_api
from whence.app.settings import Settings

SCHEMA = schemathesis.openapi.from_dict(build_api().openapi())
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
    with serve_in_thread(SERVED) as address:
        yield address


def _name_existing_models(body):
    """Name models that are there: no request that is made up does, and few would get past that."""
    if isinstance(body, dict):
        for name in {"model", "a", "b"} & body.keys():
            body[name] = "reviews"
        if "methods" in body:
            body["methods"] = ["attcat"]
        _name_existing_models(body.get("input"))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_every_endpoint_conforms_to_its_openapi_description(home, operation):
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
            _name_existing_models(case.body)
        case.call_and_validate(base_url=home, headers=bearer(SERVED), checks=CHECKS)

    kept()


def test_stored_openapi_file_equals_the_description_built_from_the_code():
    assert build_openapi.FILE.read_text(encoding="utf-8") == build_openapi.describe_api(), (
        "run scripts/build_openapi.py"
    )
