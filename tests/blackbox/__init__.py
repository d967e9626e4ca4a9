"""Suites that speak plain HTTP and know nothing of what is behind it: any server can be pointed at."""
