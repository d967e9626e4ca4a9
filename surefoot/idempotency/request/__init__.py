"""One request: what its handler is given, how its phases and calls run, and what becomes of its answer."""
