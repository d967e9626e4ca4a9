"""The event log in tables of Postgres."""
