"""The payments API: charges, refunds, transfers and accounts over HTTP, each write under an Idempotency-Key."""
