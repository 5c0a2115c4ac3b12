"""Activation: hooks go in when PyTorch comes in, and never bring it in themselves.

Rule of this file: it runs inside other people's imports, so nothing it does may fail them. ``on_import`` is called by
the import hook of ``bootstrap/sitecustomize.py`` for each of ``MODULES``; ``activate`` does the same for what has been
imported already.
"""

from __future__ import annotations

import sys
from typing import Any

from paceline.training.alternation import Alternation
from paceline.training.capturing import HOT
from paceline.training.device_clock import DeviceClock
from paceline.training.overhead_windows import OverheadWindows
from paceline.training.probe import Probe, skip_frame
from paceline.training.sampling import Sampling
from paceline.training.session import Session, follow_process_groups
from paceline.training.telling import reason, tell

#: Modules that the hooks wait for. The first holds everything but what is imported on demand.
MODULES = (
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch.distributed._functional_collectives",
    "torch.distributed.pipelining.stage",
    "deepspeed.runtime.engine",
)


class _State:
    """What has been hooked so far in this process."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.hooked = False
        self.early: list[str] = []
        self.done: set[str] = set()


_state = _State()


def session() -> Session:
    """This process's session."""
    if _state.session is None:
        _state.session = Session(Probe())
    return _state.session


def current() -> Session | None:
    """This process's session, if anything has begun one."""
    return _state.session


def on_import(name: str) -> None:
    """``name`` has just been imported."""
    try:
        if name != "torch" and not _state.hooked:
            _state.early.append(name)  # imported by torch itself, which is not complete yet
            return
        for module in [name, *_state.early] if name == "torch" else [name]:
            _install(module)
    except Exception as error:
        fail(error)


def fail(error: BaseException) -> None:
    """End the timing of this process, which may not have come to a session; one line says so."""
    try:
        session().probe.fail(error)
    except Exception:
        tell(f"timing did not start: {reason(error)}; training goes on")


def activate() -> Session:
    """Put the hooks into what has been imported already; the session."""
    for name in MODULES:
        if name in sys.modules:
            on_import(name)
    return session()


def _install(name: str) -> None:
    if name in _state.done:
        return
    _state.done.add(name)
    torch, module, probe = sys.modules["torch"], sys.modules[name], session().probe
    from paceline.training.hooks import checkpoint, collectives, forward, pipelines

    if name == "torch":
        _install_core(torch, session())
        _state.hooked = True
    elif name == "torch.distributed.fsdp":
        forward.install_fsdp(probe, torch, module)
    elif name == "torch.distributed.checkpoint":
        checkpoint.install_distributed(probe, torch, module)
    elif name == "torch.distributed.pipelining.stage":
        pipelines.install(probe, torch, module)
    elif name == "deepspeed.runtime.engine":
        forward.install_engine(probe, torch, module)
    else:
        collectives.install_functional(probe, torch, module)


def _install_core(torch: Any, session: Session) -> None:
    from paceline.training.hooks import (
        autograd,
        checkpoint,
        coalescing,
        collectives,
        forward,
        graphs,
        groups,
        loader,
        optimizer,
        scaler,
        streams,
    )

    if not hasattr(getattr(torch, "compiler", None), "is_dynamo_compiling"):
        raise RuntimeError(f"PyTorch {torch.__version__} is older than 2.3, the first that is timed")
    session.learn(torch)
    probe = session.probe
    for hot in (Probe, DeviceClock, Session, Alternation, OverheadWindows, Sampling, *Sampling.HOT, *HOT):
        skip_frame(hot)
    probe.graph_task = torch._C._current_graph_task_id
    for hook in (autograd, optimizer, scaler, loader, checkpoint, graphs, streams):
        hook.install(probe, torch)
    if not torch.distributed.is_available():
        return
    followed = session.groups = groups.Groups(probe, torch)
    collectives.install(probe, followed, torch)
    coalescing.install(probe, torch, collectives.replace)
    coalescing.accept_originals(torch)
    groups.install(probe, followed, torch, collectives.replace)
    follow_process_groups(session, followed, torch, collectives.replace)
    forward.install_ddp(probe, torch)
    if torch.distributed.is_initialized():
        for process_group in list(torch.distributed.distributed_c10d._world.pg_map):
            followed.join(process_group)
        session.begin()
