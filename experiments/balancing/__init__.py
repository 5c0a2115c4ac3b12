"""Balancing measured: what uneven shares are worth, beside uniform ones, other rules and an oracle."""
