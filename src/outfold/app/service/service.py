"""The HTTP service of a fitted model: transform, trust and inverse transform of rows in JSON, npy or Arrow.

The model is fixed when the service starts. Threads read, embed and write tables part by part (``turns.Turns``); the
event loop only talks to clients. ``policy.Guard`` checks tokens and limits.
"""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..._runtime.threads import available_cores, blas_threads, block_rows
from ..._runtime.typing import Array
from ..._version import __version__
from ...data.columns import Preparation
from ...engine.inverse import InverseModel
from ...methods.base import RUNTIME_PARAMETERS, SpectralEstimator
from ...trust import LEVEL, Trust
from ..cli.console import plain
from ..embedding import clusters, embed_rows
from . import formats, openapi
from .policy import Guard, Limits, Refused
from .server import Endpoint, answer_with
from .turns import Steps, Turns

REQUEST_ROWS_UP_TO = 10_000
TURN_ROWS_UP_TO = 1024  # rows that are embedded in one turn
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LEARNING = 30.0  # seconds that a request waits for the fit of the inverse transform
QUICK = 500  # up to this many points the inverse transform is fitted at the start, within a few seconds
OPTIONS: dict[str, tuple[str, ...]] = {
    "transform": ("trust", "coverage", "level"),
    "trust": ("coverage", "level"),
    "inverse": (),
}


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request without its body: route, formats and options."""

    name: str  # transform, trust or inverse
    form: str  # media type of the body
    wanted: str  # media type of the answer
    trust: bool = False
    coverage: float = 0.9
    level: float = LEVEL


class Metrics:
    """Counts in the text format of Prometheus. Only the event loop updates them, so there is no lock."""

    def __init__(self, routes: Sequence[str]) -> None:
        self._routes = routes
        self._requests: Counter[tuple[str, int]] = Counter()
        self._rows: Counter[str] = Counter()
        # by route: the number of answers within each bound of `SECONDS`, the number of all, the sum of seconds
        self._seconds: dict[str, list[float]] = {}
        self.in_flight: Callable[[], int] = int

    def watch(self, path: str, status: int, seconds: float) -> None:
        """Count one answer and its seconds."""
        route = path if path in self._routes else "other"
        self._requests[route, status] += 1
        counts = self._seconds.setdefault(route, [0] * (len(SECONDS) + 2))
        for at, bound in enumerate(SECONDS):
            counts[at] += seconds <= bound
        counts[-2] += 1
        counts[-1] += seconds

    def add_rows(self, path: str, rows: int) -> None:
        """Add to the number of rows answered."""
        self._rows[path] += rows

    def text(self) -> str:
        """Return all counts in the text format of Prometheus."""
        lines = ["# HELP outfold_requests_total Requests answered.", "# TYPE outfold_requests_total counter"]
        for (route, status), count in sorted(self._requests.items()):
            lines.append(f'outfold_requests_total{{route="{route}",code="{status}"}} {count}')
        lines += ["# HELP outfold_rows_total Rows answered.", "# TYPE outfold_rows_total counter"]
        lines += [f'outfold_rows_total{{route="{route}"}} {count}' for route, count in sorted(self._rows.items())]
        lines += ["# HELP outfold_request_seconds Time to answer.", "# TYPE outfold_request_seconds histogram"]
        for route, (*counts, total, spent) in sorted(self._seconds.items()):
            bounds = zip((*SECONDS, "+Inf"), (*counts, total))
            lines += [f'outfold_request_seconds_bucket{{route="{route}",le="{b}"}} {c}' for b, c in bounds]
            lines.append(f'outfold_request_seconds_sum{{route="{route}"}} {spent:.6f}')
            lines.append(f'outfold_request_seconds_count{{route="{route}"}} {total}')
        lines += ["# HELP outfold_in_flight Requests under way.", "# TYPE outfold_in_flight gauge"]
        return "\n".join([*lines, f"outfold_in_flight {self.in_flight()}", ""])


class Service:
    """A fitted estimator, the columns it was fitted with, and a thread pool that answers requests.

    Parameters
    ----------
    estimator : a fitted method of Outfold
    preparation : Preparation
        Columns and scaling of the table fitted.
    most_rows : int
        Number of rows that a request may have.
    workers : int, optional
        Number of threads that work on parts of requests. None: one for each core. A large request that is alone uses
        all of them.
    """

    def __init__(
        self,
        estimator: SpectralEstimator,
        preparation: Preparation,
        *,
        most_rows: int = REQUEST_ROWS_UP_TO,
        workers: int | None = None,
    ) -> None:
        self.workers = available_cores() if workers is None else workers
        if most_rows < 1 or self.workers < 1:
            raise ValueError(f"most_rows={most_rows} and workers={self.workers} must be at least 1.")
        self.estimator, self.preparation, self.most_rows = estimator, preparation, most_rows
        self.coordinates = tuple(str(name) for name in estimator.get_feature_names_out())
        columns, named = preparation.columns, preparation.named
        widths = (len(columns),) if named else (preparation.width, len(columns))
        table = formats.Taken(columns, widths, most_rows, by_place=not named)
        back = formats.Taken(self.coordinates, (len(self.coordinates),), most_rows)
        self._taken = {"transform": table, "trust": table, "inverse": back}
        self.metrics = Metrics([path for path, *_ in self._paths()])
        self.turns = Turns(self.workers)
        self._learner = ThreadPoolExecutor(1, thread_name_prefix="outfold-learner")
        self._back: Future[InverseModel] | None = None  # the fit of the inverse transform
        self._arrow = importlib.util.find_spec("pyarrow") is not None
        self._blas = blas_threads(1)  # until `close`: our own threads share the cores
        self._document = json.dumps(openapi.document(self.coordinates, columns, most_rows))
        self._warm()
        self._one_thread = copy.copy(estimator).set_params(n_jobs=1)
        self._turn_rows = self._count_turn_rows()

    def _warm(self) -> None:
        """Run one row, so that the first request does not wait for compilation; copies made later share the result."""
        points = np.asarray(self.estimator.landmarks_) if hasattr(self.estimator, "landmarks_") else np.empty(0)
        row = np.array(points[:1]) if points.ndim == 2 else np.zeros((1, self.estimator.n_features_in_))
        with suppress(ValueError):
            self.estimator.trust(row)

    def _count_turn_rows(self) -> int:
        """Return how many rows a turn embeds: fewer if each row needs much memory, all if they depend on each other."""
        model: Any = self.estimator.model_
        if getattr(model, "batchwise", False):
            return self.most_rows
        return min(TURN_ROWS_UP_TO, block_rows(getattr(getattr(model, "rule", None), "row_entries", 1)))

    def close(self) -> None:
        """Stop the threads without waiting for open requests."""
        self.turns.close()
        self._learner.shutdown(wait=False, cancel_futures=True)
        self._blas.restore_original_limits()

    # -- requests --------------------------------------------------------------------------

    def _paths(self) -> list[tuple[str, str, Endpoint]]:
        return [
            ("/v1/transform", "POST", self._table),
            ("/v1/trust", "POST", self._table),
            ("/v1/inverse", "POST", self._table),
            ("/v1/model", "GET", answer_with(lambda: json.dumps(self.describe(), allow_nan=False))),
            ("/health", "GET", answer_with(lambda: json.dumps({"status": "ok", "version": __version__}))),
            ("/metrics", "GET", answer_with(lambda: self.metrics.text(), "text/plain; version=0.0.4; charset=utf-8")),
            ("/openapi.json", "GET", answer_with(lambda: self._document)),
        ]

    def routes(self) -> list[Route]:
        """Return the routes for Starlette."""
        return [Route(path, endpoint, methods=[method]) for path, method, endpoint in self._paths()]

    async def _table(self, request: Request) -> Response:
        ask = self._read_request(request)
        body = await request.body()
        if ask.name == "inverse":
            await self._way_back()
        client, limits = request.state.client, request.app.limits
        short = len(body) <= 8 * self._turn_rows * len(self._taken[ask.name].columns)  # bytes of one turn as npy
        answer = self.turns.run(client, self._answer(ask, body), short=short, wait_seconds=limits.wait_seconds)
        try:
            content, headers, rows = await answer
        except formats.BadTable as error:
            raise Refused(error.status, str(error)) from None
        self.metrics.add_rows(request.scope["path"], rows)
        return Response(content, media_type=ask.wanted, headers=headers)

    def _read_request(self, request: Request) -> Ask:
        name = request.scope["path"].rpartition("/")[2]
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "Compressed bodies are not taken.")
        form = self._form(request.headers.get("content-type", ""))
        wanted = choose_media_type(request.headers.get("accept", "*/*"), form)
        if wanted is None:
            raise Refused(406, f"Answers come as {', '.join(formats.MEDIA_TYPES)}.")
        self._form(wanted)
        return Ask(
            name=name, form=form, wanted=wanted, **_options(name, request.scope["query_string"].decode("latin-1"))
        )

    def _form(self, given: str) -> str:
        kind, _, rest = given.partition(";")
        kind, rest = kind.strip().lower(), rest.strip().lower().replace('"', "")
        if kind not in formats.MEDIA_TYPES or (rest and (kind, rest) != (formats.JSON, "charset=utf-8")):
            raise Refused(415, f"Content-Type {given[:80]!r} is not taken; send {', '.join(formats.MEDIA_TYPES)}.")
        if kind == formats.ARROW and not self._arrow:
            raise Refused(415, 'Arrow needs pyarrow on the side of the service: pip install "outfold[io]".')
        return kind

    def learn_back(self) -> Future[InverseModel]:
        """Start to fit the inverse transform, once, on a thread of its own; return the future."""
        if self._back is None:
            self._back = self._learner.submit(self.estimator._inverse_model)
        return self._back

    def learn_back_if_quick(self) -> str:
        """Start to fit the inverse transform if that takes only a few seconds; return words on when it is ready."""
        points = len(np.atleast_1d(getattr(self.estimator, "landmarks_", ())))
        if points > QUICK:
            return f"learnt from {points} points when first asked for, which takes seconds to a minute"
        self.learn_back()
        return f"being learnt from {points} points"

    async def _way_back(self) -> None:
        back = self.learn_back()
        await asyncio.wait([asyncio.wrap_future(back)], timeout=LEARNING)
        if not back.done():
            message = "The way back is being learnt from the points of the model, which takes a while: ask again."
            raise Refused(503, message, headers={"retry-after": "10"})
        if isinstance(error := back.exception(), ValueError):
            raise Refused(422, f"This model has no way back: {error}")
        if error is not None:
            raise error

    # -- answers ---------------------------------------------------------------------------

    def _answer(self, ask: Ask, body: bytes) -> Steps[tuple[bytes, dict[str, str], int]]:
        """Return the body, headers and number of rows of the answer to ``body``, in steps for ``Turns``."""
        values = formats.read(ask.form, body, self._taken[ask.name])
        invert = ask.name == "inverse"
        points = values if invert else self._points(values)
        work = self._invert if invert else self._embed
        starts = range(0, len(points), self._turn_rows)
        blocks = yield [partial(work, points[start : start + self._turn_rows], ask) for start in starts]
        table = formats.stack(blocks)
        headers = {"outfold-outside": str(int(table.beside["outside"].sum()))} if "outside" in table.beside else {}
        if ask.wanted == formats.NPY and not invert:
            headers["outfold-columns"] = ",".join(formats.npy_names(table))
        content = yield formats.write(ask.wanted, table)
        return b"".join(content), headers, len(values)

    def _embed(self, points: Array, ask: Ask) -> formats.WireTable:
        evidence = ask.trust or ask.name == "trust"
        with np.errstate(all="ignore"):
            found = embed_rows(self._one_thread, points, evidence=evidence, coverage=ask.coverage, level=ask.level)
        if ask.name == "trust":
            return formats.WireTable(
                title="", names=[], values=np.empty((len(points), 0)), more=_facts(found.trust, "flag")
            )
        beside = {"outside": found.trust.flag}
        if found.clusters is not None:
            beside["cluster"] = found.clusters.astype(np.int64)
        more = _facts(found.trust, "outside") if ask.trust else {}
        return formats.WireTable(
            title="embedding", names=list(self.coordinates), values=found.places, beside=beside, more=more
        )

    def _points(self, values: Array) -> Array:
        """Return features scaled as in the fit; refuse values that overflow."""
        with np.errstate(all="ignore"):
            points = self.preparation.apply(values)
        if not np.isfinite(points).all():
            row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
            raise formats.Unfit(f"Row {row} is too large to be scaled as the columns of the fit were.")
        if self.estimator._precomputed_parameter() is not None:
            try:
                points = self.estimator._validate(points, reset=False)
            except ValueError as error:
                raise formats.Unfit(str(error)) from None
        return points

    def _invert(self, places: Array, ask: Ask) -> formats.WireTable:
        with np.errstate(all="ignore"):
            found = self.estimator._inverse_model().embed(places, self._one_thread._runner())
            values = self.preparation.undo(found)
        return formats.WireTable(title="features", names=list(self.preparation.columns), values=values)

    def describe(self) -> dict[str, object]:
        """Return the description of the model, for JSON."""
        estimator, known = self.estimator, self.preparation
        report = getattr(estimator, "report_", None)
        facts = asdict(report) if is_dataclass(report) and not isinstance(report, type) else {}
        facts.pop("candidates", None)
        learnt = self._back is not None and self._back.done() and self._back.exception() is None
        scaled = known.scaling != "none"
        parameters = {n: v for n, v in estimator.get_params(deep=False).items() if n not in RUNTIME_PARAMETERS}
        described = {
            "method": type(estimator).__name__,
            "parameters": {name: _show(value) for name, value in parameters.items()},
            "columns": list(known.columns),
            "named": known.named,
            "scaling": known.scaling,
            "centre": known.centre if scaled else None,
            "scale": known.scale if scaled else None,
            "coordinates": list(self.coordinates),
            "eigenvalues": getattr(estimator, "eigenvalues_", None),
            "epsilon": getattr(estimator, "epsilon_", None),
            "clusters": clusters(estimator),
            "calibrated": hasattr(estimator, "calibration_"),
            "round_trip_error": getattr(estimator._inverse_model(), "error", None) if learnt else None,
            "report": facts,
            "rows_at_a_time": self.most_rows,
            "version": __version__,
        }
        return {name: plain(value) for name, value in described.items()}


def _facts(trust: Trust, flag: str) -> dict[str, Array]:
    facts = {flag: trust.flag} | {name: getattr(trust, name) for name in openapi.FACTS}
    return {name: values for name, values in facts.items() if values is not None}


def _options(name: str, query: str) -> dict[str, Any]:
    """Return the options in a query string; refuse unknown and repeated names, and bad values."""
    pairs = parse_qsl(query, keep_blank_values=True)
    found = dict(pairs)
    if len(found) != len(pairs) or not found.keys() <= set(OPTIONS[name]):
        known = ", ".join(OPTIONS[name]) or "nothing"
        raise Refused(400, f"After the question mark /v1/{name} takes {known}, each once.")
    options: dict[str, Any] = {}
    if "trust" in found:
        if found["trust"] not in ("true", "false"):
            raise Refused(400, "trust is true or false.")
        options["trust"] = found["trust"] == "true"
    if "coverage" in found:
        options["coverage"] = _number(found["coverage"])
        if not 0 < options["coverage"] <= 1:
            raise Refused(400, "coverage is a number above 0, at most 1.")
    if "level" in found:
        options["level"] = _number(found["level"])
        if not 0 < options["level"] < 1:
            raise Refused(400, "level is a number between 0 and 1.")
    return options


def _number(text: str) -> float:
    """Return the number that a text holds, else NaN."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def choose_media_type(accept: str, sent: str) -> str | None:
    """Return the media type that the Accept header prefers, ``sent`` if it has no preference, None if none fits.

    >>> choose_media_type("*/*", "application/json"), choose_media_type("a/b", "")
    ('application/json', None)
    >>> choose_media_type("application/x-npy, */*;q=0.1", "application/json")
    'application/x-npy'
    """
    liked: dict[str, float] = {}
    for part in accept.split(",")[:50]:
        kind, *settings = (piece.strip().lower() for piece in part.split(";"))
        quality = next((text[2:] for text in settings if text.startswith("q=")), "1")
        with suppress(ValueError):
            liked[kind] = float(quality)

    def quality_of(form: str) -> float:
        return next((liked[kind] for kind in (form, "application/*", "*/*") if kind in liked), 0.0)

    best = max((sent, *formats.MEDIA_TYPES), key=quality_of)
    return best if quality_of(best) > 0 else None


def _show(value: object) -> object:
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return value if isinstance(value, str | bool | int | float | None) else repr(value)


def application(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    limits: Limits | None = None,
    names: Sequence[str] = (),
    client_header: str | None = None,
) -> Guard:
    """Return the service as an ASGI application. Parameters as in :class:`outfold.app.service.policy.Guard`."""
    watch = service.metrics.watch
    access: Any = {"host": host, "port": port, "token": token, "names": names, "client_header": client_header}
    app = Guard(service.routes(), limits=limits, watch=watch, **access)
    service.metrics.in_flight = lambda: app.in_flight
    return app
