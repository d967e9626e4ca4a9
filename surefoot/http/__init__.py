"""What everything of ours that speaks HTTP shares: a server that can be stopped, who asks, a bound on bodies, errors as
problems.

FastAPI takes its time to load: `server` and `problems` are not imported by commands that do not serve.
"""
