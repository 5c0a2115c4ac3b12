"""`make soak`: starts and restarts of the whole stack, by the hundred."""
