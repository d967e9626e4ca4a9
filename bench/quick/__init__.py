"""`make bench-quick`: is the working tree slower than another commit? Answered in three minutes."""
