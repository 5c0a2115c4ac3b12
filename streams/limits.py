"""Bounds on what comes from outside: numbers beyond them are garbage, not a job.

Rule of this file: numbers only.
"""

#: Rank numbers above this are taken for garbage, not for a job.
MOST_RANKS = 1_000_000
#: No phase of one step lasts this long; such a row is a clock's jump, not a duration.
ABSURD_S = 86_400.0
