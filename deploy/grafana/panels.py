"""The table of what the dashboards show: for each panel its title, its unit, what is asked for, and what that tells."""

from dataclasses import dataclass

HERE = 'job=~"$job"'
OF_CONSUMER = f'{HERE}, consumer=~"$consumer"'
OF_SAGA = f'{HERE}, saga=~"$saga"'
OF_ROUTE = f'{HERE}, route=~"$route"'
WINDOW = "$__rate_interval"
EACH_PROCESS = "instance"


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, the words for each line that it gives, and what they are of, for panels with several queries."""

    expr: str
    legend: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A number if `is_number`, else lines over time. `tells` is shown when one points at the title."""

    title: str
    unit: str
    tells: str
    queries: tuple[Query, ...]
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`known_by` is a metric that every process on it has: the jobs to choose from are those of that metric. `choices`
    are further labels to choose by, each with the metric that has its values."""

    name: str
    title: str
    known_by: str
    choices: dict[str, str]
    panels: tuple[Panel, ...]


def rate(metric: str, by: str = "", of: str = HERE) -> Query:
    """How many a second."""
    return Query(f"sum{_by(by)} (rate(surefoot_{metric}{{{of}}}[{WINDOW}]))", _legend(by) or metric, metric)


def in_an_hour(metric: str, by: str = "", of: str = HERE) -> Query:
    """How many within the last hour: for what is rare."""
    return Query(f"sum{_by(by)} (increase(surefoot_{metric}{{{of}}}[1h]))", _legend(by) or metric, metric)


def most(metric: str, by: str = "", of: str = HERE) -> Query:
    """The largest value: for gauges that every process measures for all."""
    return Query(f"max{_by(by)} (surefoot_{metric}{{{of}}})", _legend(by) or metric, metric)


def total(metric: str, by: str = "", of: str = HERE) -> Query:
    """The sum: for gauges of which every process has its share."""
    return Query(f"sum{_by(by)} (surefoot_{metric}{{{of}}})", _legend(by) or metric, metric)


def age(metric: str, by: str, of: str = HERE) -> Query:
    """Seconds since a point in time."""
    return Query(f"time() - max{_by(by)} (surefoot_{metric}{{{of}}})", _legend(by), metric)


def p95(metric: str, by: str = "", of: str = HERE) -> Query:
    """What 95 of 100 stay below."""
    buckets = f"sum{_by(', '.join(filter(None, ('le', by))))} (rate(surefoot_{metric}_bucket{{{of}}}[{WINDOW}]))"
    return Query(f"histogram_quantile(0.95, {buckets})", _legend(by) or metric, metric)


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""


def _legend(labels: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels.split(", ") if label)


def panel(title: str, unit: str, tells: str, *queries: Query) -> Panel:
    return Panel(title, unit, tells, queries)


def number(title: str, unit: str, tells: str, query: Query) -> Panel:
    return Panel(title, unit, tells, (query,), is_number=True)


OVERVIEW = Dashboard(
    "overview",
    "Surefoot: overview",
    "surefoot_alert_webhook_failures_total",
    {},
    (
        number(
            "Relays alive",
            "short",
            "Relays that renewed their leases within 30 s. None: committed events wait.",
            Query(f"count(time() - surefoot_relay_heartbeat_timestamp_seconds{{{HERE}}} < 30) or vector(0)", "relays"),
        ),
        number(
            "Oldest unpublished",
            "s",
            "How long the oldest event has waited in the outbox.",
            most("relay_oldest_unpublished_seconds"),
        ),
        number("Lag", "short", "Records that consumers have not worked off.", total("consumer_lag_records")),
        number("Parked keys", "short", "Keys whose events wait.", most("consumer_parked_keys")),
        number(
            "Stuck sagas",
            "short",
            "Sagas that wait for a person.",
            Query(f'sum(max by (saga) (surefoot_sagas_open{{{HERE}, status="STUCK"}}))', "stuck"),
        ),
        number(
            "Open dead letters",
            "short",
            "Letters that wait for a decision.",
            Query(f"sum(max by (consumer) (surefoot_dlq_open{{{HERE}}}))", "open"),
        ),
        number("Stuck requests", "short", "Requests that no process continues.", most("idempotency_stuck")),
        panel(
            "Published and handled",
            "ops",
            "The two run together. A gap between them is a growing lag.",
            rate("relay_published_total"),
            rate("consumer_processed_total"),
        ),
        panel(
            "Given up in an hour",
            "short",
            "Events that relays or consumers gave up on: an operator has to decide.",
            in_an_hour("relay_failed_total", "topic, reason"),
            in_an_hour("consumer_dead_total", "consumer, reason"),
        ),
        panel(
            "Outages in an hour",
            "short",
            "How often something was away, by who found it away.",
            in_an_hour("relay_log_outages_total"),
            in_an_hour("relay_database_outages_total"),
            in_an_hour("consumer_outages_total", "consumer, what"),
            in_an_hour("saga_outages_total"),
            in_an_hour("dlq_outages_total", "part, what"),
            in_an_hour("idempotency_store_outages_total"),
            in_an_hour("warehouse_expiry_outages_total"),
        ),
        panel("Alerts in an hour", "short", "Alerts that processes raised.", in_an_hour("alerts_total", "code")),
        panel(
            "Alerts not posted in an hour",
            "short",
            "Alerts that the webhook did not take. They are in the logs.",
            in_an_hour("alert_webhook_failures_total"),
            in_an_hour("alert_webhook_dropped_total"),
        ),
    ),
)

RELAY = Dashboard(
    "relay",
    "Surefoot: relay",
    "surefoot_relay_shards_owned",
    {},
    (
        panel("Published", "ops", "Rows published and marked.", rate("relay_published_total", "topic")),
        panel(
            "Oldest unpublished",
            "s",
            "How far each relay is behind. FAILED and HELD rows do not count.",
            most("relay_oldest_unpublished_seconds", EACH_PROCESS),
        ),
        panel("Shards", "short", "They add up to all shards.", total("relay_shards_owned", EACH_PROCESS)),
        panel(
            "Since the last heartbeat",
            "s",
            "More than a lease: the relay has lost its shards.",
            age("relay_heartbeat_timestamp_seconds", EACH_PROCESS),
        ),
        panel(
            "Parts of a round, p95",
            "s",
            "Publish is the broker; claim and mark are the database.",
            p95("relay_round_seconds", "part"),
        ),
        panel("Refused", "ops", "Refusals of the log, repeats included.", rate("relay_refused_total", "topic, reason")),
        panel(
            "FAILED in an hour",
            "short",
            "Rows given up on. Their keys are held.",
            in_an_hour("relay_failed_total", "topic, reason"),
        ),
        panel(
            "Outages and lost leases in an hour",
            "short",
            "The log or the database was away; a relay was frozen or slow.",
            in_an_hour("relay_log_outages_total"),
            in_an_hour("relay_database_outages_total"),
            in_an_hour("relay_leases_lost_total"),
        ),
        panel("Removed", "ops", "Published rows removed after their retention.", rate("relay_removed_total")),
    ),
)

CONSUMERS = Dashboard(
    "consumers",
    "Surefoot: consumers",
    "surefoot_consumer_heartbeat_timestamp_seconds",
    {"consumer": "surefoot_consumer_heartbeat_timestamp_seconds"},
    (
        panel("Handled", "ops", "Events done.", rate("consumer_processed_total", "consumer, topic", OF_CONSUMER)),
        panel("Lag", "short", "Records not worked off.", total("consumer_lag_records", "consumer, topic", OF_CONSUMER)),
        panel(
            "Partitions",
            "short",
            "They add up to all partitions of the consumer.",
            total("consumer_partitions_owned", "consumer, instance", OF_CONSUMER),
        ),
        panel(
            "Since the last poll",
            "s",
            "A member that does not ask the log for records is frozen or gone.",
            age("consumer_heartbeat_timestamp_seconds", "consumer, instance", OF_CONSUMER),
        ),
        panel(
            "Handlers, p95",
            "s",
            "Slow handlers are the usual reason for lag.",
            p95("consumer_handler_seconds", "consumer, event_type", OF_CONSUMER),
        ),
        panel(
            "Transactions, p95", "s", "Committed batches.", p95("consumer_batch_seconds", "consumer", of=OF_CONSUMER)
        ),
        panel(
            "Transactions",
            "ops",
            "Many rolled back: handlers fail, or batches fight for rows.",
            rate("consumer_batches_total", "consumer, result", OF_CONSUMER),
        ),
        panel(
            "Failed attempts",
            "ops",
            "Attempts that failed and were counted.",
            rate("consumer_failed_attempts_total", "consumer, event_type", OF_CONSUMER),
        ),
        panel(
            "Dead in an hour",
            "short",
            "Events given up on.",
            in_an_hour("consumer_dead_total", "consumer, topic, reason", OF_CONSUMER),
        ),
        panel("Parked keys", "short", "Keys that wait.", most("consumer_parked_keys", "consumer, topic", OF_CONSUMER)),
        panel(
            "Oldest parked",
            "s",
            "How long the first event has waited.",
            most("consumer_oldest_parked_seconds", "consumer, topic", OF_CONSUMER),
        ),
        panel("Parked", "ops", "Events parked.", rate("consumer_parked_total", "consumer, topic", OF_CONSUMER)),
        panel(
            "Dropped and passed over",
            "ops",
            "Deliveries seen before, and records without a handler.",
            rate("consumer_duplicates_total", "consumer", OF_CONSUMER),
            rate("consumer_ignored_total", "consumer", OF_CONSUMER),
        ),
        panel(
            "Fenced and stalled in an hour",
            "short",
            "Members freeze, or handlers block the event loop.",
            in_an_hour("consumer_fenced_total", "consumer", OF_CONSUMER),
            in_an_hour("consumer_loop_stalls_total", "consumer", OF_CONSUMER),
        ),
        panel(
            "Outages in an hour",
            "short",
            "What was away.",
            in_an_hour("consumer_outages_total", "consumer, what", OF_CONSUMER),
        ),
        panel(
            "Control records",
            "ops",
            "What dead-letter services asked for.",
            rate("consumer_controls_total", "consumer, action", OF_CONSUMER),
        ),
        panel(
            "Forgotten",
            "ops",
            "Handled events removed after their retention.",
            rate("consumer_removed_total", "consumer", OF_CONSUMER),
        ),
    ),
)
