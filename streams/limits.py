"""Bounds on what comes from outside: numbers beyond them are garbage, not a job.

Rule of this file: numbers only.
"""

#: No phase of one step lasts this long; such a row is a clock's jump, not a duration.
ABSURD_S = 86_400.0
