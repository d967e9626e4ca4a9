"""What runs beside requests: the completer, housekeeping, alerts, and what operators can look at."""
