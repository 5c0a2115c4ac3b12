"""What rated speeds are called, and what bounds them: for those who measure, those who judge, and ranks that start.

Rule of this file: constants alone.
"""

#: Devices that are no GPU: the processors, and what the node has once (disk, network).
CPU, HOST = "cpu", "host"
#: No speed of this century is more.
FASTEST = 1e21
#: A device of which others used more than this part while it was measured was busy: the number says little of it.
BUSY = 0.1
