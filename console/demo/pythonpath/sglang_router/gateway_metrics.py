"""The router's metrics, with the names and labels of smg 0.3.2. It gives no help texts."""

from __future__ import annotations

from demohost.exposition import Histogram, Metric, Series, page

from sglang_router.workers import Workers

_SECONDS = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240),
)


class GatewayMetrics:
    """All metrics of one router."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._router = (("router_type", "http"), ("backend_type", "pd"), ("connection_mode", "http"))
        self.http_requests = _counter("http_requests_total")
        self.http_responses = _counter("http_responses_total")
        self.http_duration = Histogram("smg_http_request_duration_seconds", _SECONDS)
        self.router_requests = _counter("router_requests_total")
        self.router_errors = _counter("router_request_errors_total")
        self.router_duration = Histogram("smg_router_request_duration_seconds", _SECONDS)
        self.selections = _counter("worker_selection_total")
        self.retries = _counter("worker_retries_total")
        self.retries_exhausted = _counter("worker_retries_exhausted_total")
        self.worker_errors = _counter("worker_errors_total")
        self.outcomes = _counter("worker_cb_outcomes_total")

    def requested(self, endpoint: str, model: str, streaming: bool) -> None:
        """A request for text was taken on."""
        labels = (("model", model), ("endpoint", endpoint), ("streaming", str(streaming).lower()))
        self.router_requests.add(1, *self._router, *labels)

    def done(self, endpoint: str, model: str, seconds: float) -> None:
        """It was answered."""
        self.router_duration.observe(seconds, *self._router, ("model", model), ("endpoint", endpoint))

    def failed(self, endpoint: str, model: str, code: str) -> None:
        """It was answered with an error."""
        labels = (("model", model), ("endpoint", endpoint), ("error_type", code))
        self.router_errors.add(1, *self._router, *labels)

    def selected(self, kind: str, model: str) -> None:
        """A worker was chosen."""
        labels = (("worker_type", kind), ("connection_mode", "http"), ("model", model))
        self.selections.add(1, *labels, ("policy", self._policy))

    def page(self, workers: Workers) -> str:
        """The page of /metrics."""
        counted: list[Metric] = [
            *(self.http_requests, self.http_responses, self.http_duration),
            *(self.router_requests, self.router_errors, self.router_duration),
            *(self.selections, self.retries, self.retries_exhausted, self.worker_errors, self.outcomes),
        ]
        return page([*counted, *_gauges(workers)])


def _gauges(workers: Workers) -> list[Metric]:
    health, state, active = (
        _gauge("worker_health"),
        _gauge("worker_cb_state"),
        _gauge("worker_requests_active"),
    )
    failures, pool = _gauge("worker_cb_consecutive_failures"), _gauge("worker_pool_size")
    for worker in workers:
        label = ("worker", worker.address.url)
        health.set(float(worker.healthy), label)
        state.set(0.0 if worker.opened_at is None else 1.0, label)
        active.set(worker.active, label)
        failures.set(worker.failures, label)
        pool.add(
            1, ("worker_type", worker.address.kind), ("connection_mode", "http"), ("model", worker.model)
        )
    return [health, state, active, failures, pool]


def _counter(name: str) -> Series:
    return Series("counter", f"smg_{name}")


def _gauge(name: str) -> Series:
    return Series("gauge", f"smg_{name}")
