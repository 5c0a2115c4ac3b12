"""`make bench-idle`: what the whole stack takes while nothing happens."""
