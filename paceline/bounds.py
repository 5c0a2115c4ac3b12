"""The bounds of numbers in events, for those who have no msgspec to check them by.

Rule of this file: constants alone, for it is imported in the user's training process.
"""

#: Unix time in seconds, up to the year 5138, and no duration is longer.
LATEST_S = 1e11
#: Ranks are numbers below this, and no job has more of them. What a worker judges of one job is a setting.
RANK_LIMIT = 2**20
