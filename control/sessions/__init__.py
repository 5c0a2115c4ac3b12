"""A session on disk: one folder, in which a recorder writes and everybody else only reads or asks it to stop.

Rule of this folder: no bus. What is on disk is complete without the process that wrote it: kill -9 loses nothing that
a manifest has told.
"""
