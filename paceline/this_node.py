"""What this machine is called.

Rule of this file: the one place that asks the environment and the system for those who show commands to read here.
"""

import os
import socket

from paceline.identity import node_of
from paceline.settings import SettingError


def this_node() -> str:
    """This machine, by the name that its collector and its ranks give it."""
    try:
        return node_of(os.environ, socket.gethostname())
    except SettingError:
        return socket.gethostname()
