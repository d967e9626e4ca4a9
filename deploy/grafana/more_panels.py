"""The table goes on: sagas, dead letters, and requests with what is behind them."""

from deploy.grafana.panels import (
    HERE,
    OF_ROUTE,
    OF_SAGA,
    WINDOW,
    Dashboard,
    Query,
    age,
    in_an_hour,
    most,
    number,
    p95,
    panel,
    rate,
    total,
)

ENDED = "surefoot_sagas_ended_total"
SAGAS = Dashboard(
    "sagas",
    "Surefoot: sagas",
    "surefoot_saga_oldest_stuck_seconds",
    {"saga": "surefoot_sagas_started_total"},
    (
        panel("Under way", "short", "STUCK ones wait for you.", most("sagas_open", "saga, status", OF_SAGA)),
        number("Longest stuck", "s", "How long the longest stuck saga has been so.", most("saga_oldest_stuck_seconds")),
        panel("Begun", "ops", "Sagas that began.", rate("sagas_started_total", "saga", OF_SAGA)),
        panel("Ended", "ops", "Ended or got stuck.", rate("sagas_ended_total", "saga, status", OF_SAGA)),
        panel(
            "Share undone or failed",
            "percentunit",
            "Of those that ended. A step at a deploy is a service that refuses or fails.",
            Query(
                f'sum by (saga) (rate({ENDED}{{{OF_SAGA}, status=~"COMPENSATED|FAILED"}}[{WINDOW}]))'
                f" / sum by (saga) (rate({ENDED}{{{OF_SAGA}}}[{WINDOW}]))",
                "{{saga}}",
            ),
        ),
        panel("Decisions", "ops", "Lines written into the history.", rate("saga_decisions_total")),
        panel("Timers", "ops", "Many timeouts: services are slow.", rate("saga_timers_fired_total", "kind")),
        panel(
            "Postponed timers",
            "ops",
            "Why silence does not count yet. Unread: a service does not read its commands.",
            rate("saga_timers_postponed_total", "why"),
        ),
        panel("Events of no saga", "ops", "Replies that no saga waits for.", rate("saga_events_ignored_total", "why")),
        panel("Outages in an hour", "short", "What timers need was away.", in_an_hour("saga_outages_total")),
    ),
)

DEAD_LETTERS = Dashboard(
    "dead-letters",
    "Surefoot: dead letters",
    "surefoot_dlq_heartbeat_timestamp_seconds",
    {},
    (
        panel("Open", "short", "Letters that wait for a decision.", most("dlq_open", "consumer")),
        panel("Letters", "ops", "What was taken in.", rate("dlq_letters_total", "topic, result")),
        panel("Asked of consumers", "ops", "Control records, repeats included.", rate("dlq_controls_total", "action")),
        panel("Answers", "ops", "What consumers answered.", rate("dlq_answers_total", "action, answer")),
        panel("Unexpected answers", "ops", "Repeats are among them.", rate("dlq_answers_unasked_total")),
        panel(
            "Since the last turn",
            "s",
            "A part that has no turn is frozen or gone.",
            age("dlq_heartbeat_timestamp_seconds", "part"),
        ),
        panel(
            "Gone before they were read, in an hour",
            "short",
            "The service was away for longer than its topics are kept.",
            in_an_hour("dlq_records_gone_total", "topic"),
        ),
        panel("Outages in an hour", "short", "What was away.", in_an_hour("dlq_outages_total", "part, what")),
        panel("Refused requests", "ops", "By reason.", rate("dlq_api_refusals_total", "status, reason")),
        panel(
            "Refusals not written down, in an hour",
            "short",
            "Too many at a time, or the database was away.",
            in_an_hour("dlq_api_refusals_unrecorded_total"),
        ),
        panel("Answers given again", "ops", "Known Idempotency-Keys.", rate("dlq_api_answers_replayed_total")),
    ),
)

REQUESTS = Dashboard(
    "requests",
    "Surefoot: requests",
    "surefoot_idempotency_running",
    {"route": "surefoot_idempotency_claims_total"},
    (
        number("Stuck", "short", "Requests that no process continues.", most("idempotency_stuck")),
        number(
            "Oldest call without an answer",
            "s",
            "How long a provider has been silent.",
            most("idempotency_oldest_pending_call_seconds"),
        ),
        panel("Under way", "short", "In each process.", total("idempotency_running", "instance")),
        panel("Worked on", "reqps", "Keys claimed.", rate("idempotency_claims_total", "route", OF_ROUTE)),
        panel("Answered again", "reqps", "Clients retry.", rate("idempotency_replays_total", "route", OF_ROUTE)),
        panel(
            "Answered with 409 and 410",
            "reqps",
            "In flight for longer than was waited, or expired.",
            rate("idempotency_conflicts_total", "route", OF_ROUTE),
            rate("idempotency_expired_total", "route", OF_ROUTE),
        ),
        panel("Waited for a twin, p95", "s", "For one in flight.", p95("idempotency_wait_seconds")),
        panel(
            "Keys used wrongly",
            "reqps",
            "For another request, by tenant; missing; not to be read.",
            rate("idempotency_mismatches_total", "tenant"),
            rate("idempotency_missing_keys_total", "route, mode", OF_ROUTE),
            rate("idempotency_malformed_keys_total", "route", OF_ROUTE),
        ),
        panel(
            "Outcome unknown",
            "reqps",
            "The outcome at the provider is unknown.",
            rate("idempotency_outcome_unknown_total", "route", OF_ROUTE),
        ),
        panel(
            "Store away, in an hour",
            "short",
            "Requests refused, requests done without protection, and outages.",
            in_an_hour("idempotency_fail_closed_total", "route", OF_ROUTE),
            in_an_hour("idempotency_fail_open_total", "route", OF_ROUTE),
            in_an_hour("idempotency_store_outages_total"),
            in_an_hour("idempotency_completer_outages_total"),
            in_an_hour("idempotency_housekeeping_outages_total"),
        ),
        panel(
            "Taken over and used up, in an hour",
            "short",
            "Attempts that lost their claim, and requests tried as often as they may be.",
            in_an_hour("idempotency_fence_lost_total", "route", OF_ROUTE),
            in_an_hour("idempotency_exhausted_total", "route", OF_ROUTE),
        ),
        panel("Completer", "ops", "Abandoned requests made again.", rate("idempotency_completer_total", "outcome")),
        panel("Deleted keys", "ops", "Their windows had passed.", rate("idempotency_reaped_total")),
        panel("Webhooks", "ops", "By what became of them.", rate("payment_webhooks_total", "outcome")),
        panel(
            "Contradictions in an hour",
            "short",
            "The gateway says what cannot be true.",
            in_an_hour("payment_contradictions_total", "source"),
        ),
        panel("Refused moves of money", "ops", "Tries included.", rate("ledger_refused_total", "reason", HERE)),
    ),
)
