"""``paceline why``: what ended or stopped a job, from the logs, dumps and stacks that are left of it."""
