"""``python -m tests.archive.database.mirroring BROKERS``: a mirror in a process of its own, for tests that kill it."""

import os
import signal
import sys
import threading

from archive.database.mirror import DatabaseMirror
from paceline.kafka.settings import BrokerSettings
from paceline.settings import DATABASE

if __name__ == "__main__":
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    mirror = DatabaseMirror(BrokerSettings().with_brokers(sys.argv[1]), DATABASE.read(os.environ), stop)
    mirror.start()
    stop.wait()
    mirror.stop()
