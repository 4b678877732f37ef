"""A model behind HTTP: rows in, positions out, in JSON, npy or Arrow.

The model is fixed when the service starts. Tables are read, embedded and written on a few threads of their own; the
loop that talks to clients does nothing else. Who may ask, and how much, is the guard's business.
"""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .._version import __version__
from ..preparation import Preparation
from ..runners import available_cores, blas_threads
from ..trust import Trust
from . import guard, openapi, wire
from .guard import Limits, Refused
from .telling import plain

Array = NDArray[Any]

ROWS = 10_000
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LEARNING = 30.0  # seconds that a request waits for the way back to be learnt
QUICK = 500  # points that the way back is learnt from within a few seconds
ASIDE = ("checkpoint", "n_jobs", "verbose")  # parameters that are not about the model, and may name a folder
OPTIONS: dict[str, tuple[str, ...]] = {"transform": ("trust", "coverage"), "trust": ("coverage",), "inverse": ()}


@dataclass(frozen=True)
class Ask:
    """One request, as far as its head tells."""

    name: str
    form: str  # of the body
    wanted: str  # form of the answer
    trust: bool = False
    coverage: float = 0.9


class Metrics:
    """Counts in the text format of Prometheus; told by the loop only, so nothing is locked."""

    def __init__(self, routes: Sequence[str]) -> None:
        self._routes = routes
        self._requests: Counter[tuple[str, int]] = Counter()
        self._rows: Counter[str] = Counter()
        self._seconds: dict[str, list[float]] = {}  # counts up to each bound, all, sum
        self.in_flight: Callable[[], int] = int

    def watch(self, path: str, status: int, seconds: float) -> None:
        """Count an answer and its seconds."""
        route = path if path in self._routes else "other"
        self._requests[route, status] += 1
        counts = self._seconds.setdefault(route, [0] * (len(SECONDS) + 2))
        for at, bound in enumerate(SECONDS):
            counts[at] += seconds <= bound
        counts[-2] += 1
        counts[-1] += seconds

    def add_rows(self, path: str, rows: int) -> None:
        """Count rows that were answered."""
        self._rows[path] += rows

    def text(self) -> str:
        """All counts, as Prometheus reads them."""
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
    """A fitted estimator, the columns it was fitted with, and threads to ask it on.

    Parameters
    ----------
    estimator : a fitted method of Outfold
    preparation : Preparation
        Columns and scaling of the table fitted.
    most_rows : int
        That a request may have.
    workers : int, optional
        Requests that are worked on at a time; one for each core if not given. A request that is alone has all cores,
        others one core each.
    """

    def __init__(
        self, estimator: Any, preparation: Preparation, *, most_rows: int = ROWS, workers: int | None = None
    ) -> None:
        cores = available_cores()
        self.workers = cores if workers is None else workers
        if most_rows < 1 or self.workers < 1:
            raise ValueError(f"most_rows={most_rows} and workers={self.workers} must be at least 1.")
        self.estimator, self.preparation, self.most_rows = estimator, preparation, most_rows
        self.coordinates = tuple(str(name) for name in estimator.get_feature_names_out())
        columns, named = preparation.columns, preparation.named
        widths = (len(columns),) if named else (preparation.width, len(columns))
        table = wire.Taken(columns, widths, most_rows, by_place=not named)
        back = wire.Taken(self.coordinates, (len(self.coordinates),), most_rows)
        self._taken = {"transform": table, "trust": table, "inverse": back}
        self.metrics = Metrics([path for path, *_ in self._paths()])
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="outfold-service")
        self._learner = ThreadPoolExecutor(1, thread_name_prefix="outfold-learner")
        self._back: Future[Any] | None = None  # the way back
        self._arrow = importlib.util.find_spec("pyarrow") is not None
        self._lock, self._running = threading.Lock(), 0
        self._blas = blas_threads(1)  # for as long as there is a service: threads of ours share the cores
        self._document = json.dumps(openapi.document(self.coordinates, columns, most_rows))
        self._warm()
        self._by_threads = [copy.copy(estimator).set_params(n_jobs=count) for count in range(1, cores + 1)]

    def _warm(self) -> None:
        """Compile and learn what the first request would wait for; copies made later share it."""
        points = np.asarray(self.estimator.landmarks_) if hasattr(self.estimator, "landmarks_") else np.empty(0)
        row = np.array(points[:1]) if points.ndim == 2 else np.zeros((1, self.estimator.n_features_in_))
        with suppress(ValueError):
            self.estimator.trust(row)

    def close(self) -> None:
        """Stop the threads; requests under way are not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._learner.shutdown(wait=False, cancel_futures=True)
        self._blas.restore_original_limits()

    # -- what is asked ---------------------------------------------------------------------

    def _paths(self) -> list[tuple[str, str, Any]]:
        return [
            ("/v1/transform", "POST", self._table),
            ("/v1/trust", "POST", self._table),
            ("/v1/inverse", "POST", self._table),
            ("/v1/model", "GET", self._model),
            ("/health", "GET", self._health),
            ("/metrics", "GET", self._metrics),
            ("/openapi.json", "GET", self._openapi),
        ]

    def routes(self) -> list[Route]:
        """What can be asked, for Starlette."""
        return [Route(path, endpoint, methods=[method]) for path, method, endpoint in self._paths()]

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ok", "version": __version__})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, request: Request) -> Response:
        return Response(self._document, media_type=wire.JSON)

    async def _model(self, request: Request) -> Response:
        return _json(self.describe())

    async def _table(self, request: Request) -> Response:
        ask = self._asked(request)
        body = await request.body()
        if ask.name == "inverse":
            await self._way_back()
        try:
            loop = asyncio.get_running_loop()
            content, headers, rows = await loop.run_in_executor(self._pool, self._answer, ask, body)
        except wire.Unreadable as error:
            raise Refused(400, str(error)) from None
        except wire.TooMuch as error:
            raise Refused(413, str(error)) from None
        except wire.Unfit as error:
            raise Refused(422, str(error)) from None
        self.metrics.add_rows(request.scope["path"], rows)
        return Response(content, media_type=ask.wanted, headers=headers)

    def _asked(self, request: Request) -> Ask:
        name = request.scope["path"].rpartition("/")[2]
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "Compressed bodies are not taken.")
        form = self._form(request.headers.get("content-type", ""))
        wanted = chosen(request.headers.get("accept", "*/*"), form)
        if wanted is None:
            raise Refused(406, f"Answers come as {', '.join(wire.FORMS)}.")
        self._form(wanted)
        return Ask(name, form, wanted, **_options(name, request.scope["query_string"].decode("latin-1")))

    def _form(self, given: str) -> str:
        kind, _, rest = given.partition(";")
        kind, rest = kind.strip().lower(), rest.strip().lower().replace('"', "")
        if kind not in wire.FORMS or (rest and (kind, rest) != (wire.JSON, "charset=utf-8")):
            raise Refused(415, f"Content-Type {given[:80]!r} is not taken; send {', '.join(wire.FORMS)}.")
        if kind == wire.ARROW and not self._arrow:
            raise Refused(415, 'Arrow needs pyarrow on the side of the service: pip install "outfold[io]".')
        return kind

    def learn_back(self) -> Future[Any]:
        """Learn the way back once, beside the threads that answer; the first request for it does so if nobody did."""
        if self._back is None:
            self._back = self._learner.submit(self.estimator._learnt_back)
        return self._back

    def learn_back_if_quick(self) -> str:
        """Learn the way back now if it takes a few seconds only; when it is learnt, in words."""
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

    # -- what is answered ------------------------------------------------------------------

    def _answer(self, ask: Ask, body: bytes) -> tuple[bytes, dict[str, str], int]:
        """On a thread: bytes to bytes."""
        values = wire.read(ask.form, body, self._taken[ask.name])
        with self._share() as estimator, np.errstate(all="ignore"):
            table = (
                self._back_to_columns(estimator, values)
                if ask.name == "inverse"
                else self._embedded(estimator, values, ask)
            )
        headers = {"outfold-outside": str(int(table.beside["outside"].sum()))} if "outside" in table.beside else {}
        if ask.wanted == wire.NPY and ask.name != "inverse":
            headers["outfold-columns"] = ",".join(wire.npy_names(table))
        return wire.write(ask.wanted, table), headers, len(values)

    @contextmanager
    def _share(self) -> Iterator[Any]:
        """The estimator, with a fair share of the cores."""
        with self._lock:
            self._running += 1
            threads = max(1, len(self._by_threads) // self._running)
        try:
            yield self._by_threads[threads - 1]
        finally:
            with self._lock:
                self._running -= 1

    def _embedded(self, estimator: Any, values: Array, ask: Ask) -> wire.Table:
        points = self._points(estimator, values)
        places, found = estimator.model_.look(points, estimator._runner())
        if ask.name == "trust":
            judged = estimator._judged(points, places, found, ask.coverage)
            return wire.Table("", [], np.empty((len(points), 0)), more=_facts(judged, "flag"))
        beside = {"outside": found.flag}
        if hasattr(estimator, "cluster_centers_"):
            beside["cluster"] = estimator._clusters(places).astype(np.int64)
        more = _facts(estimator._judged(points, places, found, ask.coverage), "outside") if ask.trust else {}
        return wire.Table("embedding", list(self.coordinates), places, beside, more)

    def _points(self, estimator: Any, values: Array) -> Array:
        """Features as the fit saw them."""
        points = self.preparation.apply(values)
        if not np.isfinite(points).all():
            row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
            raise wire.Unfit(f"Row {row} is too large to be scaled as the columns of the fit were.")
        if estimator._precomputed() is None:
            return points
        try:
            return estimator._validate(points, reset=False)
        except ValueError as error:
            raise wire.Unfit(str(error)) from None

    def _back_to_columns(self, estimator: Any, values: Array) -> wire.Table:
        found = self.estimator._learnt_back().embed(values, estimator._runner())
        return wire.Table("features", list(self.preparation.columns), self.preparation.undo(found))

    def describe(self) -> dict[str, Any]:
        """What the model is, as JSON has it."""
        estimator, known = self.estimator, self.preparation
        report = getattr(estimator, "report_", None)
        facts = asdict(report) if is_dataclass(report) and not isinstance(report, type) else {}
        facts.pop("candidates", None)
        learnt = self._back is not None and self._back.done() and self._back.exception() is None
        scaled = known.scaling != "none"
        return plain(
            {
                "method": type(estimator).__name__,
                "parameters": {n: _shown(v) for n, v in estimator.get_params(deep=False).items() if n not in ASIDE},
                "columns": list(known.columns),
                "named": known.named,
                "scaling": known.scaling,
                "centre": known.centre if scaled else None,
                "scale": known.scale if scaled else None,
                "coordinates": list(self.coordinates),
                "eigenvalues": getattr(estimator, "eigenvalues_", None),
                "epsilon": getattr(estimator, "epsilon_", None),
                "clusters": len(estimator.cluster_centers_) if hasattr(estimator, "cluster_centers_") else None,
                "calibrated": hasattr(estimator, "calibration_"),
                "round_trip_error": getattr(estimator._learnt_back(), "error", None) if learnt else None,
                "report": facts,
                "rows_at_a_time": self.most_rows,
                "version": __version__,
            }
        )


def _facts(trust: Trust, flag: str) -> dict[str, Array]:
    facts = {"support": trust.support, flag: trust.flag, "distance": trust.distance, "residual": trust.residual}
    facts |= {"disagreement": trust.disagreement, "error": trust.error}
    return {name: values for name, values in facts.items() if values is not None}


def _options(name: str, query: str) -> dict[str, Any]:
    """What stands after the question mark, strictly."""
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
        try:
            options["coverage"] = float(found["coverage"])
        except ValueError:
            options["coverage"] = np.nan
        if not 0 < options["coverage"] <= 1:
            raise Refused(400, "coverage is a number above 0, at most 1.")
    return options


def chosen(accept: str, sent: str) -> str | None:
    """The form that a client likes best; as sent where it does not say.

    >>> chosen("*/*", "application/json"), chosen("application/x-npy, */*;q=0.1", "application/json"), chosen("a/b", "")
    ('application/json', 'application/x-npy', None)
    """
    liked: dict[str, float] = {}
    for part in accept.split(",")[:50]:
        kind, *settings = (piece.strip().lower() for piece in part.split(";"))
        quality = next((text[2:] for text in settings if text.startswith("q=")), "1")
        with suppress(ValueError):
            liked[kind] = float(quality)

    def quality_of(form: str) -> float:
        return next((liked[kind] for kind in (form, "application/*", "*/*") if kind in liked), 0.0)

    best = max((sent, *wire.FORMS), key=quality_of)
    return best if quality_of(best) > 0 else None


def _shown(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return value if isinstance(value, str | bool | int | float | None) else repr(value)


def _json(document: Any) -> Response:
    return Response(json.dumps(document, allow_nan=False), media_type=wire.JSON)


def application(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    limits: Limits | None = None,
    names: Sequence[str] = (),
) -> guard.Guard:
    """The service behind its guard: an ASGI application. Parameters as in :func:`outfold.app.guard.application`."""
    watch = service.metrics.watch
    app = guard.application(
        service.routes(), host=host, port=port, token=token, limits=limits, names=names, watch=watch
    )
    service.metrics.in_flight = lambda: app.in_flight
    return app
