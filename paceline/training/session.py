"""The session: one rank's timing, from the moment the process is known to be a rank until it ends.

Rule of this file: it decides when shipping starts and stops; nothing in it runs more than once a step. A process is a
rank once ``init_process_group`` has succeeded in it, or, undistributed or under Horovod or torchrun, at its first
optimizer step, or where it tells of its steps itself, if it is nobody's child process.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from paceline.identity import attempt_of, job_of, labels_of
from paceline.launchers import Launched, launched
from paceline.settings import PROBE_BUDGET, TOTAL_STEPS, SettingError
from paceline.training import marks
from paceline.training.accelerator import accelerator_of
from paceline.training.alternation import Alternation, Plan
from paceline.training.attempt_note import AttemptNote
from paceline.training.balance_link import BalanceLink
from paceline.training.device_clock import DeviceClock
from paceline.training.failure_messages import Failed
from paceline.training.last_words import ThreadFailures, at_exit, while_handled
from paceline.training.links import TcpLinks
from paceline.training.messages import MEASURE_VARIABLE, SOCKET_VARIABLE, Hello, Issued
from paceline.training.overhead_windows import OverheadWindows
from paceline.training.probe import MOST, Probe
from paceline.training.ray_job import current_environment
from paceline.training.sampling import Sampling
from paceline.training.shared_attempt import SharedAttempt, store_of
from paceline.training.shipping import Shipping
from paceline.training.tracking import Tracking, tracking_of
from paceline.training.versions import versions_of

#: What torchrun gives to each of its ranks; and which process is one, for those that it starts in its environment.
TORCHRUN, RANK_PROCESS = "TORCHELASTIC_RUN_ID", "PACELINE_RANK_PROCESS"


class Session:
    """This process's timing. ``probe`` is what the hooks write to."""

    def __init__(self, probe: Probe, torch: Any = None) -> None:
        self.probe = probe
        self._torch = torch
        #: The latest named device mesh: where this rank stands in the parallelism.
        self.mesh: Any = None
        #: The process groups followed, by ``hooks.groups``.
        self.groups: Any = None
        #: How long the end waits for a sidecar that the script itself has just started.
        self.patience_s = 0.0
        #: What a balancer in this process and the sidecar tell each other.
        self.balance = BalanceLink()
        self._shipping: Shipping | None = None
        #: Whether it began as one of several ranks that had joined no group.
        self._apart = False
        #: What tells of the script's runs at experiment trackers: on rank 0, where somebody asked for it.
        self._tracking: Tracking | None = None
        self._token = os.urandom(8).hex()
        #: The attempt as the ranks of the run have agreed on it, where their launcher may give them different ones.
        self._attempt: SharedAttempt | None = None
        self._ended = False
        self._exit_registered = False
        self._thread_failures = ThreadFailures()
        probe.begin, probe.device_found = self.step_begins, self._device_found
        os.register_at_fork(before=self._forks, after_in_child=self._forked)

    def step_begins(self, *, told: bool = False) -> None:
        """An optimizer steps, or the script tells of a step itself: a main process that does so trains."""
        try:
            if self._shipping is None and not self._ended and self._trains(told):
                self.begin()
                self._apart = self._joined() is None and TORCHRUN in os.environ
            self.probe.idle = self._shipping is None and not self._ended
        except Exception as error:
            self.probe.fail(error)

    def begin(self) -> None:
        """This process is a rank, and the calling thread trains."""
        path = os.environ.get(SOCKET_VARIABLE, "")
        if self._shipping is not None or self.probe.stopped or not path:
            return
        if TORCHRUN in os.environ:
            os.environ[RANK_PROCESS] = str(os.getpid())
        try:
            budget = PROBE_BUDGET.read(os.environ) / 100
        except SettingError as error:
            self.probe.fail(error)
            return
        self.probe.adopt_thread()
        self.probe.most, self.probe.idle = MOST, False
        ports = {int(port)} if (port := os.environ.get("MASTER_PORT", "")).isdigit() else set()
        links = TcpLinks(ports)
        self._agree(path)
        self._shipping = Shipping(
            self.probe,
            path,
            self._hello,
            links,
            self._known,
            self._attempt_known,
            balance=self.balance,
            patience_s=self.patience_s,
        )
        self.probe.use_host()
        plans = self._plans(self._shipping, budget)
        self.probe.alternation = Alternation(self.probe, plans, self._standing) if plans else None
        self._device_found()
        self._shipping.start()
        self._track()
        if self.probe.collected not in gc.callbacks:
            gc.callbacks.append(self.probe.collected)
        self._thread_failures.follow()
        self._end_at_exit()

    def _agree(self, path: str) -> None:
        """Ask the other ranks for the attempt of this run; a process that joins again goes on from its own."""
        distributed, own = self._joined(), self._attempt_number()
        store = store_of(distributed, os.environ)
        if store is not None:
            speaker, note = f"{os.getpid()}-{self._token}", AttemptNote(path, job_of(current_environment()))
            self._attempt = SharedAttempt(store, distributed.get_rank(), own, speaker, note)
            self._attempt.start()

    def _attempt_number(self) -> int:
        return attempt_of(os.environ) if self._attempt is None else self._attempt.number()

    def _attempt_known(self) -> bool:
        return self._attempt is None or self._attempt.known()

    def _track(self) -> None:
        distributed, place = self._joined(), launched(os.environ)
        rank = distributed.get_rank() if distributed else place.rank if place is not None else 0
        self._tracking = tracking_of(rank, os.environ)
        if self._tracking is not None:
            self._tracking.start()

    def _plans(self, shipping: Shipping, budget: float) -> list[Plan]:
        """What turns the probe off now and then.

        Where PyTorch does not tell a group's collectives, those of a step that is left out could not be counted: they
        would be other collectives than those of the same numbers on ranks that tell it. There nothing is left out.
        """
        plans: list[Plan] = []
        if os.environ.get(MEASURE_VARIABLE):
            plans.append(OverheadWindows(self.probe, shipping.wake))
        if budget and (self.groups is None or self.groups.hooked):
            plans.append(Sampling(self.probe, budget))
        return plans

    def resume(self) -> None:
        """Time again after a stop."""
        self.probe.off = self.probe.stopped = self._ended = False
        self.probe.idle = True

    def rejoin(self) -> None:
        """Begin at once where this process is part of a group already."""
        if self._joined() is not None:
            self.begin()

    def end(self, failed: Failed | None = None) -> None:
        """The rank leaves: send the rest, and what has ``failed``. A later ``begin`` makes it a rank again."""
        shipping, self._shipping, self._ended = self._shipping, None, True
        tracking, self._tracking = self._tracking, None
        if tracking is not None:
            tracking.finish()
        if shipping is not None:
            shipping.finish(failed or self._thread_failures.first)
            self._thread_failures.leave()
            if self._attempt is not None:
                self._attempt.stop()
            self.probe.alternation = None
            self.probe.go_on()

    def join(self) -> None:
        """A group of all ranks has begun: what this one did before, perhaps alone, is not among their steps."""
        if self._apart:
            self.end()
        self._apart = False
        self.begin()

    def leave(self) -> None:
        """The group of all ranks is destroyed: who joins another may train something else."""
        self.end(while_handled())
        self.mesh, probe = None, self.probe
        probe.device = probe.batch_size = probe.stage = None
        probe.wrapper = ""

    def _device_found(self) -> None:
        """The first backward has shown where the model is."""
        try:
            self._use_device()
        except Exception as error:
            self.probe.fail(error)

    def _use_device(self) -> None:
        shipping, probe = self._shipping, self.probe
        if shipping is None or probe.device is None:
            return
        accelerator = accelerator_of(self._torch, probe.device)
        if accelerator is not None:
            probe.device = accelerator.device
            one_queue = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
            clock = DeviceClock(probe, accelerator, arrivals=not one_queue)
            shipping.use(clock)
            probe.use(clock)

    def _standing(self) -> Issued | None:
        """The collective that the training thread is in, by its stack: the last that it has counted in the world."""
        frame = sys._current_frames().get(self.probe.thread)
        while frame is not None and frame.f_code not in self.probe.waits:
            frame = frame.f_back
        group = self.groups.world() if frame is not None and self.groups is not None else None
        if group is None:
            return None
        return group.name, group.size, max(group.count - 1, 0), "collective", 0, marks.PYTHON

    def learn(self, torch: Any) -> None:
        """PyTorch has been imported."""
        self._torch = torch

    def _joined(self) -> Any:
        """``torch.distributed`` where this process is part of a group, else None."""
        distributed = self._torch.distributed if self._torch is not None else None
        return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None

    def _trains(self, told: bool) -> bool:
        if self._joined() is not None:
            return True
        place = launched(os.environ)
        # Horovod's ranks join no group of PyTorch's, nor need those do that tell of their steps. Others that are
        # launched together will, or train apart, as the trials of a search do; torchrun's are ranks of one job.
        rank = told or place is None or place.world_size == 1 or "horovod.torch" in sys.modules
        rank = rank or _of_torchrun(os.environ)
        return rank and multiprocessing.parent_process() is None

    def _end_at_exit(self) -> None:
        if self._exit_registered:
            return
        self._exit_registered = True
        if multiprocessing.parent_process() is None:
            atexit.register(self._exits)
        else:  # Children of multiprocessing leave without running atexit's functions.
            from multiprocessing.util import Finalize

            Finalize(None, self._exits, exitpriority=100)

    def _exits(self) -> None:
        """Python exits."""
        self.end(at_exit())

    def _forks(self) -> None:
        """What a child must not inherit ends; a fork is the script's, and nothing of ours may fail it."""
        try:
            if self._shipping is not None:
                self._shipping.forks()
        except Exception as error:
            self.probe.fail(error)

    def _forked(self) -> None:
        """Nothing of the parent's is the child's, which dies where it frees an event, or a model's process group."""
        shipping, self._shipping, self._exit_registered = self._shipping, None, False
        self._thread_failures.first = None
        _keep(self._attempt)  # A store's lock may be held by a thread that the child does not have.
        self._attempt = None
        probe, clock = self.probe, shipping.clock if shipping is not None else None
        _keep((probe.ring, probe.clock, clock, probe.reducer, probe.in_forward))
        if self._tracking is not None:
            self._tracking.leave_child()
            self._tracking = None
        if shipping is not None:
            shipping.leave_child()
        if self.probe.collected in gc.callbacks:
            gc.callbacks.remove(self.probe.collected)
        self.probe.reset()

    def _hello(self) -> Hello:
        distributed, environ = self._joined(), current_environment()
        told = launched(environ) or Launched(0, 1, None)
        rank = distributed.get_rank() if distributed else told.rank
        framework = f"torch {self._torch.__version__} {self.probe.wrapper}".strip() if self._torch else "python"
        return Hello(
            rank=rank,
            world_size=distributed.get_world_size() if distributed else told.world_size,
            local_rank=rank if told.local_rank is None else told.local_rank,
            pid=os.getpid(),
            device=self._device(),
            backend=str(distributed.get_backend()) if distributed else "none",
            framework=framework,
            job=job_of(environ),
            attempt=self._attempt_number(),
            started_s=time.time(),
            batch_size=self.probe.batch_size,
            labels=labels_of(environ),
            place=None,
            measures=bool(environ.get(MEASURE_VARIABLE)),
            versions=versions_of(self._torch),
            **({} if self.probe.stage is None else {"pp": self.probe.stage}) | coordinates(self.mesh),
        )

    def _known(self) -> tuple[Any, ...]:
        """What ``_hello`` says that training tells only as it goes."""
        probe = self.probe
        return probe.device, probe.wrapper, probe.batch_size, probe.stage, self.mesh, os.environ.get(TOTAL_STEPS.name)

    def _device(self) -> str:
        """The device trained on; a GPU by the id that the driver's tools show. CUDA is never initialised for this."""
        device = self.probe.device
        if device is None or device.type != "cuda" or not self._torch.cuda.is_initialized():
            return str(device) if device is not None else "cpu"
        cuda = self._torch.cuda
        if self.probe.captures.graphs:
            return str(device)
        uuid = getattr(cuda.get_device_properties(device), "uuid", None)
        return f"GPU-{uuid}" if uuid else str(device)


def _of_torchrun(environ: Mapping[str, str]) -> bool:
    """Whether torchrun started this very process; one that a rank starts has the same environment."""
    own = str(os.getpid())
    return TORCHRUN in environ and environ.get(RANK_PROCESS, own) == own


def follow_process_groups(session: Session, groups: Any, torch: Any, replace: Any) -> None:
    """Begin when ``init_process_group`` has succeeded, end before the group is destroyed."""
    c10d = torch.distributed.distributed_c10d
    create, destroy = c10d.init_process_group, c10d.destroy_process_group

    @functools.wraps(create)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = create(*args, **kwargs)
        try:
            groups.join(c10d._get_default_group())
            session.join()
        except Exception as error:
            session.probe.fail(error)
        return result

    @functools.wraps(destroy)
    def destroy_process_group(group: Any = None) -> Any:
        try:
            everything = group is None or group is torch.distributed.group.WORLD
            if everything:
                session.leave()
            groups.leave(None if everything else group)
        except Exception as error:
            session.probe.fail(error)
        return destroy(group)

    replace("init_process_group", create, init_process_group)
    replace("destroy_process_group", destroy, destroy_process_group)
    if hasattr(torch.distributed, "device_mesh"):  # PyTorch 2.3 does not import it by itself.
        _follow_meshes(session, torch.distributed.device_mesh.init_device_mesh, replace)


def _follow_meshes(session: Session, make: Any, replace: Any) -> None:
    @functools.wraps(make)
    def init_device_mesh(*args: Any, **kwargs: Any) -> Any:
        mesh = make(*args, **kwargs)
        if getattr(mesh, "mesh_dim_names", None):
            session.mesh = mesh
        return mesh

    replace("init_device_mesh", make, init_device_mesh)


def coordinates(mesh: Any) -> dict[str, int]:
    """This rank's place in the data, tensor and pipeline dimensions of ``mesh``, by the names they usually have."""
    places: dict[str, int] = {}
    place = mesh.get_coordinate() if mesh is not None else None
    for name, size, index in zip(mesh.mesh_dim_names, mesh.shape, place) if place is not None else ():
        if name in ("tp", "pp"):
            places[name] = index
        elif name in ("dp", "fsdp", "replicate", "shard", "dp_replicate", "dp_shard"):
            places["dp"] = places.get("dp", 0) * size + index
    return places


def _keep(kept: Any) -> None:
    """Never free ``kept``, not even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
