"""The recorder: a process that follows the bus and writes one session, until it is asked to end.

Rule of this folder: what a manifest tells lies on disk already. The recorder outlives the control that started it; it
is killed, and its session lacks nothing but what the bus forgets before somebody recovers it.
"""
