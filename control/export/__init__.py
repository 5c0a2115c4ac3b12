"""What a recorded session is turned into: a recording, frames, tables, numbers and pictures.

Rule of this folder: messages stream through; nothing in memory grows with the length of a recording. What cannot be
used is passed over and counted, never raised.
"""
