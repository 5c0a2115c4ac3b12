"""One way in: each message about a job is admitted, placed and tabulated once, for all that judge or sum it up."""
