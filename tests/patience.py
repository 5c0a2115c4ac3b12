"""How long a test waits for what must come: so long that a slow machine is not taken for a fault.

Rule of this file: it is the one limit of real time in tests (``tests/house/test_time_limits.py``). It says that
something hangs, and nothing else; what a product promises in seconds is tested in its decision, with a clock.
"""

#: Shorter than pytest's own timeout, so that the test says what it waited for.
PATIENCE_S = 240.0
