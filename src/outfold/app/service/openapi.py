"""The OpenAPI 3.1 document of the service: routes, inputs, answers and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._version import __version__
from ...trust import LEVEL
from . import formats
from .policy import CODES

WHY = {
    400: "The body is not what its Content-Type says, or the query is not understood.",
    401: "The address needs a token.",
    403: "The Host or Origin of the request is not that of the service.",
    406: "None of the forms asked for can be given.",
    408: "The body took too long to arrive.",
    413: "Too many bytes or rows.",
    415: "The form of the body is not known.",
    422: "The table is not one that the model takes; the row and the column are named.",
    503: "Too much at a time: try again after the seconds of Retry-After.",
}
TABLE = (400, 401, 403, 406, 408, 413, 415, 422, 503)
OTHERS = (401, 403)
FACTS = ("p_value", "score", "support", "isolation", "distance", "amplitude", "remainder", "residual", "disagreement",
         "error")  # fmt: skip

NUMBER = {"type": "number"}
MAYBE = {"type": ["number", "null"]}  # null stands for a number that is not finite


def _list(items: dict[str, Any], **more: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _object(required: Sequence[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def document(coordinates: Sequence[str], columns: Sequence[str], most_rows: int) -> dict[str, Any]:
    """Return the document for a model with these columns and coordinates."""
    coverage = _query("coverage", {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.9},
                      "The probability that error holds with.")  # fmt: skip
    level = _query("level", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": LEVEL},
                   "Rows with a smaller p_value are outside the data of the fit.")  # fmt: skip
    trust = _query("trust", {"type": "boolean", "default": False}, "Add what /v1/trust tells.")
    paths = {
        "/v1/transform": _post("transform", "Embed rows.", "Rows", "Embedding", [trust, coverage, level]),
        "/v1/trust": _post("trust", "How far to believe the positions of rows.", "Rows", "Trust", [coverage, level]),
        "/v1/inverse": _post(
            "inverse",
            "From coordinates back to columns, in the units of the table fitted.",
            "Coordinates",
            "Features",
            more="The way back is learnt once: for a model of many points when it is first asked for, which takes "
            "seconds to a minute. Answers 503 until then; ask again after the seconds of Retry-After.",
        ),
        "/v1/model": _get("model", "What the model is.", formats.JSON, _ref("Model")),
        "/health": _get("health", "Whether the service answers.", formats.JSON, _ref("Health")),
        "/metrics": _get("metrics", "Counts for Prometheus.", "text/plain", {"type": "string"}),
        "/openapi.json": _get("openapi", "This document.", formats.JSON, {"type": "object"}),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Outfold", "version": __version__, "description": "A fitted embedding as a service."},
        "paths": paths,
        "components": {
            "schemas": _schemas(coordinates, columns, most_rows),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _query(name: str, schema: dict[str, Any], told: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": told}


def _post(
    name: str, told: str, taken: str, given: str, parameters: Sequence[dict[str, Any]] = (), more: str = ""
) -> dict[str, dict[str, Any]]:
    binary: dict[str, Any] = {formats.NPY: {}, formats.ARROW: {}}
    content = {formats.JSON: {"schema": _ref(given)}, **binary}
    answer = {"description": "In the form of Accept; as sent where it does not say.", "content": content}
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": told,
        "description": more or told,
        "parameters": list(parameters),
        "requestBody": {"required": True, "content": {formats.JSON: {"schema": _ref(taken)}, **binary}},
        "responses": {"200": answer, **_errors(TABLE)},
    }
    return {"post": operation}


def _get(name: str, told: str, form: str, schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    answer = {"description": told, "content": {form: {"schema": schema}}}
    return {"get": {"operationId": name, "summary": told, "responses": {"200": answer, **_errors(OTHERS)}}}


def _errors(statuses: Sequence[int]) -> dict[str, Any]:
    content = {formats.JSON: {"schema": _ref("Error")}}
    return {str(status): {"description": WHY[status], "content": content} for status in statuses}


def _accepts(names: Sequence[str], most_rows: int) -> dict[str, Any]:
    rows = _list(_list(NUMBER), minItems=1, maxItems=most_rows)
    each = {name: _list(NUMBER, maxItems=most_rows) for name in names}
    columns = {"type": "object", "required": list(names), "properties": each}
    return {"oneOf": [_object(["rows"], {"rows": rows}), _object(["columns"], {"columns": columns})]}


def _schemas(coordinates: Sequence[str], columns: Sequence[str], most_rows: int) -> dict[str, Any]:
    names, places = _list({"type": "string"}), _list(_list(MAYBE))
    truths = _list({"type": "boolean"})
    facts = {name: _list(MAYBE) for name in FACTS}
    embedding = {"columns": names, "embedding": places, "outside": truths, "cluster": _list({"type": "integer"})}
    error = _object(["code", "message"], {"code": {"enum": sorted(CODES.values())}, "message": {"type": "string"}})
    text, some = {"type": "string"}, {"type": ["array", "null"], "items": MAYBE}
    model = {
        "method": text,
        "parameters": {"type": "object"},
        "columns": names,
        "named": {"type": "boolean"},
        "scaling": text,
        "centre": some,
        "scale": some,
        "coordinates": names,
        "eigenvalues": some,
        "epsilon": MAYBE,
        "clusters": {"type": ["integer", "null"]},
        "calibrated": {"type": "boolean"},
        "round_trip_error": MAYBE,
        "report": {"type": "object"},
        "rows_at_a_time": {"type": "integer"},
        "version": text,
    }
    return {
        "Rows": _accepts(columns, most_rows),
        "Coordinates": _accepts(coordinates, most_rows),
        "Embedding": _object(["columns", "embedding", "outside"], embedding | facts),
        "Trust": _object(["p_value", "score", "flag", "support"], facts | {"flag": truths}),
        "Features": _object(["columns", "features"], {"columns": names, "features": places}),
        "Model": _object(list(model), model),
        "Health": _object(["status", "version"], {"status": {"const": "ok"}, "version": text}),
        "Error": _object(["error"], {"error": error}),
    }
