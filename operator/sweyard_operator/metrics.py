"""Prometheus metrics of the operator, in a registry of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """What dashboards and alerts read at /metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        pool = ["namespace", "pool"]
        self.passes = Counter(
            "sweyard_passes", "Passes over objects by kind and result.", ["kind", "result"], registry=self.registry
        )
        self.pass_seconds = Histogram(
            "sweyard_pass_seconds",
            "Duration of passes by kind.",
            ["kind"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300),
            registry=self.registry,
        )
        self.pass_computed_seconds = Histogram(
            "sweyard_pass_computed_seconds",
            "Processor time of passes by kind; the rest of their duration they wait for the API server.",
            ["kind"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1),
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "sweyard_queue_seconds",
            "How long objects waited for a worker, by kind.",
            ["kind"],
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300),
            registry=self.registry,
        )
        self.queue_depth = Gauge("sweyard_queue_depth", "Objects waiting for a worker.", registry=self.registry)
        self.watch_silence = Gauge(
            "sweyard_watch_silence_seconds", "Silence of the most silent watch.", registry=self.registry
        )
        self.sandboxes = Gauge(
            "sweyard_pool_sandboxes", "Sandboxes of a pool by state.", [*pool, "state"], registry=self.registry
        )
        self.sandboxes_created = Counter(
            "sweyard_pool_sandboxes_created", "Sandbox pods created.", pool, registry=self.registry
        )
        self.sandbox_failures = Counter(
            "sweyard_pool_sandbox_failures",
            "Sandboxes that failed, by reason.",
            [*pool, "reason"],
            registry=self.registry,
        )
        self.sandboxes_recycled = Counter(
            "sweyard_pool_sandboxes_recycled", "Sandboxes reset, found clean and freed.", pool, registry=self.registry
        )
        self.sandboxes_discarded = Counter(
            "sweyard_pool_sandboxes_discarded",
            "Released sandboxes that were deleted in a pool that recycles, by reason.",
            [*pool, "reason"],
            registry=self.registry,
        )
        self.stage_seconds = Histogram(
            "sweyard_pool_sandbox_stage_seconds",
            "How long sandboxes took for each stage of their life.",
            [*pool, "stage"],
            buckets=(0.5, 1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 300, 600, 1_800, 7_200),
            registry=self.registry,
        )
        self.sandbox_starts = Counter(
            "sweyard_pool_sandbox_starts",
            "Sandboxes that came to a node, by whether their ImageCache had their image there before them.",
            [*pool, "image"],
            registry=self.registry,
        )
        self.holders_reaped = Counter(
            "sweyard_pool_holders_reaped", "Holders whose Lease lapsed.", pool, registry=self.registry
        )

    def observe_pass(self, kind: str, waited_seconds: float, computed_seconds: float) -> None:
        """One pass is over."""
        self.queue_seconds.labels(kind).observe(waited_seconds)
        self.pass_computed_seconds.labels(kind).observe(computed_seconds)
