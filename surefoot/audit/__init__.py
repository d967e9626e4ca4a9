"""People, their roles and tokens, and the record of what they decided."""
