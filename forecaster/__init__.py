"""The forecaster: what comes next, which cycle, which kind of job."""
