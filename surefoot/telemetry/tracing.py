"""The trace an event is written in, as W3C headers. Costs next to nothing when no tracing is set up."""

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()


def current_trace() -> tuple[str | None, str | None]:
    """`traceparent` and `tracestate` of the current span, or None where there is none."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent"), carrier.get("tracestate")
