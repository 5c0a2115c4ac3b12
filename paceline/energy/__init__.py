"""Energy: from counters to joules, whose they are, and what they cost.

Rule of this package: pure, and each of these answers has one home here, whoever asks: streams, control or the page. A
number that cannot be known is None, and where it was estimated it is said how.
"""
