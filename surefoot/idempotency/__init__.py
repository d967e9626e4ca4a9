"""HTTP requests that take effect once: the key, the claim, the phases and the answer that is given again."""
