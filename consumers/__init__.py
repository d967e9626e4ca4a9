"""Runs consumers: what reads the topics, and the live statistics beside it."""
