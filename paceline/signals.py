"""Which signals end a process that has no handler for them, and may be sent to all processes of a run at once.

Rule of this file: what a launcher gives on to its command, what runs beside it outlives. Schedulers choose freely among
these (Slurm's ``--signal``); not among them are those that a process causes itself, and those that stop or go on.
"""

import signal

_CAUSED = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGPIPE", "SIGXFSZ"}
_STATES = {"SIGKILL", "SIGSTOP", "SIGCONT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCHLD", "SIGWINCH", "SIGURG"}
#: Those that end a process, sent from outside: INT, TERM, HUP, USR1, USR2, XCPU, ALRM, the real-time ones and so on.
ENDING = frozenset(signal.valid_signals()) - {getattr(signal, name) for name in _CAUSED | _STATES}


def outlive(*, alone: bool) -> None:
    """Let none of them end this process but SIGTERM, and not that either where whoever started us has blocked it; who
    is ``alone`` is ended by it in any case."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    kept = set() if alone else {signal.SIGTERM} & blocked
    signal.pthread_sigmask(signal.SIG_SETMASK, ENDING - {signal.SIGTERM} | kept)
