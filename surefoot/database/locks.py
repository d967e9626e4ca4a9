"""The numbers of Surefoot's advisory locks, in one place, so that no two mean different things by the same one.

A number never changes: processes of two versions run beside each other while a new one is rolled out. Locks of one
number alone (`pg_advisory_xact_lock(n)`) and classes (`pg_advisory_xact_lock(class, n)`) are told apart by Postgres.
"""

OUTBOX_KEY = 1937076838
"""Class: a bucket of an event key's hash, from the insert of its events to the commit."""
MIGRATION = 1937076839
"""One migration at a time, from whichever machine it is started."""
CONSUMER_TURN = 1937076841
"""Class: one batch of a consumer at a time, for consumers that ask for it."""
HISTORY_SEAL = 1937076842
"""One process at a time seals the history of idempotent requests."""
AUDIT_LOG = 1937076845
"""Class: writers of a schema's audit log take turns, so that its numbers have no gaps."""
JOBS_OF_PERSON = 1937076846
"""Class: requests of one person for jobs are counted one after the other."""
ADMIN_REQUEST = 1937076847
"""Class: one request under an idempotency key of the admin API is worked on at a time."""

OUTBOX_BUCKETS = 512
"""Keys share so many locks: the table of locks is small, and a bulk insert must not fill it."""
