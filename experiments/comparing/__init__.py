"""How often `paceline compare` is wrong on simulated runs."""
