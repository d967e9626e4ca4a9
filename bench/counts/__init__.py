"""`make counts`: how large the tree is, and how many files one has to open to follow what happens."""
