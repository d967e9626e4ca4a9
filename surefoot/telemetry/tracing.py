"""Traces, as W3C headers on events: from where an event is written, into its handler, and on to what that publishes.

Costs next to nothing when no tracing is set up.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from surefoot.events import Event

_propagator = TraceContextTextMapPropagator()
_NOTHING: AbstractContextManager[None] = nullcontext()


def current_trace() -> tuple[str | None, str | None]:
    """`traceparent` and `tracestate` of the current span, or None where there is none."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent"), carrier.get("tracestate")


def handling(event: Event[Any], consumer: str) -> AbstractContextManager[None]:
    """The trace in which a consumer handles an event: a span of its own, child of the one the event was written in."""
    if event.traceparent is None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return _NOTHING  # nobody records anything
    return _handling(event, consumer)


@contextmanager
def _handling(event: Event[Any], consumer: str) -> Iterator[None]:
    carrier = {"traceparent": event.traceparent or "", "tracestate": event.tracestate or ""}
    token = context.attach(_propagator.extract({name: value for name, value in carrier.items() if value}))
    try:
        attributes = {
            "messaging.system": "surefoot",
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": consumer,
            "messaging.message.id": event.id,
        }
        tracer = trace.get_tracer("surefoot")
        with tracer.start_as_current_span(f"process {event.type}", kind=trace.SpanKind.CONSUMER, attributes=attributes):
            yield
    finally:
        context.detach(token)
