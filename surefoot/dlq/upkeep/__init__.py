"""What happens by the clock: alerts, reports, retention."""
