"""Logs a person can read, or JSON when asked. Set up once, by the command that runs."""

import logging
import sys
from typing import Literal

LogFormat = Literal["text", "json"]


def set_up_logging(log_format: LogFormat = "text", *, level: int = logging.INFO) -> None:
    """Send our log lines to standard error, so that a command's output can be piped."""
    import structlog  # here, because every command imports this module for its options

    renderer: structlog.types.Processor
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # aiokafka logs every reconnect attempt as an error; our own lines say it once, in a sentence.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
