"""How busy a GPU is: from which share of the time on its hours count as used.

Rule of this file: one number, for all who add up hours: suggestions, reports and the page. Whether idleness is a
finding is judged elsewhere, by limits that are apart on purpose.
"""

#: A GPU that was busy for less of a window was idle in it.
IDLE_RATIO = 0.05
