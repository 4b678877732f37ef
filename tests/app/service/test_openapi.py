"""The OpenAPI document is complete and true."""

import json

import numpy as np
import pytest

import outfold
from catalogue import quietly
from clients import COLUMNS, PREPARATION, X, ask, post, serving
from outfold.app.service import formats, service


@pytest.fixture(scope="module")
def served():
    model = outfold.DiffusionMaps(3, random_state=0).fit(PREPARATION.apply(X[:200]))
    yield from serving(quietly(model.calibrate, folds=3))


@pytest.fixture
def app(served):
    return service.application(served, port=8765)


def holds(schema, value, document):
    """Whether a value is what a schema says, as far as the words of ours go."""
    if "$ref" in schema:
        return holds(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, document)
    if "oneOf" in schema:
        return sum(holds(one, value, document) for one in schema["oneOf"]) == 1
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kinds = {"number": (int, float), "integer": int, "string": str, "boolean": bool, "array": list, "object": dict}
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if value is None or isinstance(value, bool):
        return ("null" if value is None else "boolean") in names
    if not any(isinstance(value, kinds[name]) for name in names if name != "null"):
        return False
    if isinstance(value, list):
        assert len(value) <= schema.get("maxItems", len(value))
        return all(holds(schema["items"], part, document) for part in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        if not set(schema.get("required", ())) <= set(value):
            return False
        if not schema.get("additionalProperties", True) and not set(value) <= set(known):
            return False
        return all(holds(known[name], part, document) for name, part in value.items() if name in known)
    return True


def test_the_openapi_document_is_complete_and_true(app, served):
    document = ask(app, "GET", "/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert {(path, method.upper()) for path, way in document["paths"].items() for method in way} == {
        (path, method) for path, method, _ in served._paths()
    }
    for path, way in document["paths"].items():
        for method, told in way.items():
            good, bad = told["responses"]["200"]["content"], told["responses"]
            if method == "get":
                answer = ask(app, "GET", path)
                (form,) = good
                assert answer.headers["content-type"].startswith(form)
                value = answer.json() if form == formats.JSON else answer.text
                assert holds(good[form]["schema"], value, document), path
                assert holds(
                    bad["403"]["content"][formats.JSON]["schema"],
                    ask(app, "GET", path, headers={"host": "x"}).json(),
                    document,
                )
                continue
            width = len(served.coordinates if path.endswith("inverse") else COLUMNS)
            names = served.coordinates if path.endswith("inverse") else COLUMNS
            values = np.full((2, width), 0.25)
            assert holds(told["requestBody"]["content"][formats.JSON]["schema"], {"rows": values.tolist()}, document)
            assert not holds(told["requestBody"]["content"][formats.JSON]["schema"], {"rows": [["a"]]}, document)
            query = [f"{p['name']}={json.dumps(p['schema']['default'])}" for p in told["parameters"]]
            for form in told["requestBody"]["content"]:
                for wanted in good:
                    answer = post(app, f"{path}?{'&'.join(query)}", values, form=form, wanted=wanted, names=names)
                    assert answer.status_code == 200, answer.text
                    assert answer.headers["content-type"] == wanted
                    if wanted == formats.JSON:
                        assert holds(
                            good[form]["schema"] if form == wanted else good[wanted]["schema"], answer.json(), document
                        )
            for status in (400, 413, 415, 422):
                assert str(status) in bad
