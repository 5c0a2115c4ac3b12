"""Forecasting, cycles and kinds of job, measured on recorded data: `make bench-forecasting`."""
