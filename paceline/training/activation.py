"""Activation: hooks go in when PyTorch comes in, and never bring it in themselves.

Rule of this file: it runs inside other people's imports, so nothing it does may fail them. ``on_import`` is called by
the import hook of ``bootstrap/sitecustomize.py`` for each of ``MODULES``; ``activate`` does the same for what has been
imported already.
"""

import sys
from typing import Any

#: Modules that the hooks wait for. The first holds everything but what is imported on demand.
MODULES = (
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch.distributed._functional_collectives",
)


class _State:
    session: Any = None
    early: list[str]

    def __init__(self) -> None:
        self.early = []
        self.done: set[str] = set()


_state = _State()


def on_import(name: str) -> None:
    """``name`` has just been imported."""
    try:
        if name != "torch" and _state.session is None:
            _state.early.append(name)  # imported by torch itself, which is not complete yet
            return
        for found in [name, *_state.early] if name == "torch" else [name]:
            _install(found)
    except Exception as error:
        _give_up(error)


def activate() -> Any:
    """Put the hooks into what is imported, torch first; the session, or None where that failed."""
    for name in MODULES:
        if name in sys.modules:
            on_import(name)
    return _state.session


def _install(name: str) -> None:
    if name in _state.done:
        return
    _state.done.add(name)
    torch, module = sys.modules["torch"], sys.modules[name]
    from paceline.training.hooks import checkpoint, collectives, forward

    if name == "torch":
        _install_core(torch)
    elif name == "torch.distributed.fsdp":
        forward.install_fsdp(_state.session.probe, torch, module)
    elif name == "torch.distributed.checkpoint":
        checkpoint.install_distributed(_state.session.probe, torch, module)
    else:
        collectives.install_functional(_state.session.probe, torch, module)


def _install_core(torch: Any) -> None:
    from paceline.training.hooks import autograd, checkpoint, collectives, forward, groups, loader, optimizer
    from paceline.training.probe import Probe
    from paceline.training.session import Session, follow_process_groups

    probe = Probe()
    _state.session = Session(probe, torch)
    for hook in (autograd, optimizer, loader, checkpoint):
        hook.install(probe, torch)
    if torch.distributed.is_available():
        found = groups.Groups(probe, torch)
        collectives.install(probe, found, torch)
        groups.install(probe, found, torch, collectives.replace)
        follow_process_groups(_state.session, found, torch, collectives.replace)
        forward.install_ddp(probe, torch)


def _give_up(error: Exception) -> None:
    if _state.session is not None:
        _state.session.probe.fail(error)
        return
    words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    print(f"paceline: timing did not start: {words}; training goes on", file=sys.stderr, flush=True)
