"""What everything of ours that speaks HTTP shares: a server that can be stopped, a bound on bodies, errors as problems.

FastAPI takes its time to load: nothing here is imported by commands that do not serve.
"""
