"""Simulated buyers and carriers: they open sessions, place orders (some click twice), give goods back, fetch them."""
