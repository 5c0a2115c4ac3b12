"""Alerts: findings and suggestions on their way to people, by webhook, mail, command or Alertmanager.

Rule of this package: what is sent when is decided by state, never by a queue: each destination is told what differs
from what it was told last. Doors are ``post``, ``mail``, ``program``, ``state_file``, ``sender`` and ``run``; all else
is pure.
"""
