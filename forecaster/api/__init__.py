"""The HTTP interface: what may be asked, how it is refused, and where each question goes.

Rule of this folder: doors. A route reads, asks a decision and answers; nothing is computed here.
"""
