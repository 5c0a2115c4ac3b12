"""How the processes of ranks ended: each rank's own exception, its exit, and the collective that it was in."""

from typing import Annotated, Literal

import msgspec

from paceline.events.base import Count, Rank, Time, Word

#: exception: it raised one that nothing caught. exit: it ended in good order, or called ``sys.exit``. lost: its
#: connection broke without a goodbye.
How = Literal["exception", "exit", "lost"]
#: Characters of an exception's text.
LONGEST_MESSAGE = 400
Message = Annotated[str, msgspec.Meta(max_length=LONGEST_MESSAGE)]
#: 0 to 255, or -N where signal N ended it.
ExitStatus = Annotated[int, msgspec.Meta(ge=-64, le=255)]


class RankEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a rank's process ended (``how``, in a word of ``How``), and at ``time_s`` of its node's clock: when the
    exception was raised, else when the process was found to have ended.

    ``error`` is the type of its exception and ``message`` its text; ``first`` is the exception that was being handled
    when it was raised, the earliest of them, as type and text. ``line`` (file:line function) is the innermost in the
    user's own code, ``thread`` the name of the thread where that is not the main one. Where there is an ``error`` and
    ``how`` is not "exception", it need not have ended the process. ``status`` is None where it could not be read.
    ``group``, ``seq`` and ``operation`` are of the collective that the rank was in. ``oom_kills`` is how many processes
    of its control group the kernel killed for memory while it ran. ``out_of_time``: the time that Slurm gives its job
    (SLURM_JOB_END_TIME) had just run out.
    """

    rank: Rank
    time_s: Time
    how: Word
    error: Word = ""
    message: Message = ""
    first: Message = ""
    line: Word = ""
    thread: Word = ""
    status: ExitStatus | None = None
    pid: Count = 0
    group: Word = ""
    seq: Count | None = None
    operation: Word = ""
    oom_kills: Count = 0
    out_of_time: bool = False
