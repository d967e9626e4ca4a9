"""Random interleavings of what can happen, held against a model that was written by itself."""
