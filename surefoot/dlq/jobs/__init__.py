"""Replays, discards and edits as jobs over a frozen set of letters."""
