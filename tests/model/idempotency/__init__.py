"""One key: retries, other requests, crashes, sleepers and windows in any order, against a reference model of it."""
