"""Reading dead-letter topics into the tables."""
