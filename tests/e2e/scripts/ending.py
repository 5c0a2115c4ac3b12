"""One gloo rank that ends as ``ending.py CASE`` asks, with words on both of its outputs."""

import atexit
import ctypes
import os
import signal
import sys
import threading

import torch
import torch.distributed as dist


def fail(text):
    raise ValueError(text)


def end(case):
    if case == "exception":
        try:
            fail("first")
        except ValueError:
            fail("user:secret@host \x1b[31m\udcff" + 1000 * "x")
    if case == "thread":
        worker = threading.Thread(target=fail, args=("bad batch",), name="reader")
        worker.start()
        worker.join()
        os._exit(7)
    if case == "hook":
        sys.excepthook = lambda kind, error, _: print("own hook:", kind.__name__, error, file=sys.stderr)
        fail("bad")
    if case == "status":
        sys.exit(3)
    if case == "words":
        sys.exit("no data")
    if case == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "segfault":
        ctypes.string_at(0)


dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
atexit.register(print, "bye")
for step in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    print("step", step, flush=True)
    print("loss", step, file=sys.stderr)
with open(sys.argv[2] + ".timed", "w") as timed:
    timed.write(str("paceline.training.session" in sys.modules))
end(sys.argv[1])
