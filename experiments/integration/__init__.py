"""``make integration-check``: what we write for others, read back by their own servers and libraries."""
