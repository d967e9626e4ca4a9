"""Proofs over what the services have left in their tables. A finding is a sentence; none means that all adds up."""
