"""The forecaster: what comes next, which rhythm, which kind of job."""
