"""The session: one rank's timing, from the moment the process is known to be a rank until it ends.

Rule of this file: it decides when shipping starts and stops; nothing in it runs more than once a step. A process is a
rank once ``init_process_group`` has succeeded in it, or, undistributed, at its first optimizer step, if it is nobody's
child process.
"""

import atexit
import gc
import multiprocessing
import os
import sys
import time
from typing import Any

from paceline.training.identity import attempt_of, job_of, labels_of
from paceline.training.links import Links
from paceline.training.messages import SOCKET_VARIABLE, Hello
from paceline.training.probe import MOST, Probe
from paceline.training.shipping import Shipping


class Session:
    """This process's timing. ``probe`` is what the hooks write to."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self.probe = probe
        self._torch = torch
        self._shipping: Shipping | None = None
        self._ended = False
        self._exit_registered = False
        probe.begin = self.step_begins
        os.register_at_fork(after_in_child=self._forked)

    def step_begins(self) -> None:
        """An optimizer steps: an undistributed main process that does so trains."""
        if self._shipping is None and not self._ended and self._alone():
            self.begin()

    def begin(self) -> None:
        """This process is a rank, and the calling thread trains."""
        path = os.environ.get(SOCKET_VARIABLE, "")
        if self._shipping is not None or self.probe.off or not path:
            return
        self.probe.adopt_thread()
        self.probe.most = MOST
        ports = {int(port)} if (port := os.environ.get("MASTER_PORT", "")).isdigit() else set()
        self._shipping = Shipping(self.probe, path, self._hello, Links(ports))
        self._shipping.start()
        if self.probe.collected not in gc.callbacks:
            gc.callbacks.append(self.probe.collected)
        self._end_at_exit()

    def end(self) -> None:
        """The rank leaves: send the rest. A later ``begin`` makes it a rank again."""
        shipping, self._shipping, self._ended = self._shipping, None, True
        if shipping is not None:
            shipping.finish()

    def _alone(self) -> bool:
        distributed = self._torch.distributed
        launched = int(os.environ.get("WORLD_SIZE") or "1") if os.environ.get("WORLD_SIZE", "1").isdigit() else 1
        joined = distributed.is_available() and distributed.is_initialized()
        return joined or (launched == 1 and multiprocessing.parent_process() is None)

    def _end_at_exit(self) -> None:
        if self._exit_registered:
            return
        self._exit_registered = True
        if multiprocessing.parent_process() is None:
            atexit.register(self.end)
        else:  # Children of multiprocessing leave without running atexit's functions.
            from multiprocessing.util import Finalize

            Finalize(None, self.end, exitpriority=100)

    def _forked(self) -> None:
        self._shipping, self._exit_registered = None, False
        if self.probe.collected in gc.callbacks:
            gc.callbacks.remove(self.probe.collected)
        self.probe.forget()

    def _hello(self) -> Hello:
        distributed, environ = self._torch.distributed, os.environ
        joined = distributed.is_available() and distributed.is_initialized()
        rank, world = (distributed.get_rank(), distributed.get_world_size()) if joined else (0, 1)
        local = environ.get("LOCAL_RANK") or environ.get("SLURM_LOCALID") or ""
        return Hello(
            rank=rank,
            world_size=world,
            local_rank=int(local) if local.isdigit() else rank,
            pid=os.getpid(),
            device=self._device(),
            backend=str(distributed.get_backend()) if joined else "none",
            framework=f"torch {self._torch.__version__}" + (f" {self.probe.wrapper}" if self.probe.wrapper else ""),
            job=job_of(environ),
            attempt=attempt_of(environ),
            started_s=time.time(),
            batch_size=self.probe.batch_size,
            labels=labels_of(environ),
        )

    def _device(self) -> str:
        """The device trained on; a GPU by the id that the driver's tools show. CUDA is never initialised for this."""
        device, cuda = self.probe.device, self._torch.cuda
        if device is None or device.type != "cuda" or not cuda.is_initialized():
            return str(device) if device is not None else "cpu"
        index = device.index if device.index is not None else cuda.current_device()
        uuid = getattr(cuda.get_device_properties(index), "uuid", None)
        return f"GPU-{uuid}" if uuid else f"cuda:{index}"


def follow_process_groups(session: Session, groups: Any, torch: Any, replace: Any) -> None:
    """Begin when ``init_process_group`` has succeeded, end before the group is destroyed."""
    import functools

    c10d = torch.distributed.distributed_c10d
    create, destroy = c10d.init_process_group, c10d.destroy_process_group

    @functools.wraps(create)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = create(*args, **kwargs)
        try:
            groups.join(c10d._get_default_group())
            session.begin()
        except Exception as error:
            session.probe.fail(error)
        return result

    @functools.wraps(destroy)
    def destroy_process_group(group: Any = None) -> Any:
        try:
            everything = group is None or group is torch.distributed.group.WORLD
            if everything:
                session.end()
            groups.leave(None if everything else group)
        except Exception as error:
            session.probe.fail(error)
        return destroy(group)

    replace("init_process_group", create, init_process_group)
    replace("destroy_process_group", destroy, destroy_process_group)


def warn(text: str) -> None:
    """One line for the person who started the training."""
    print(f"paceline: {text}", file=sys.stderr, flush=True)
