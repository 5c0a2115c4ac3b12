"""A door: Slurm's own programs, as argument lists, with an end to how long they take and how much they say.

Rule of this file: it asks and hands on; what the words mean is decided elsewhere. A controller that is away is an
``AwayError``; whoever asked decides for how long to ask again.
"""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from .executor import ExecutorError
from .slurm_states import away, plain

#: For an answer; Slurm's own patience with a controller is ten seconds a message.
ANSWER_S = 45.0
MOST_BYTES = 1024 * 1024


class AwayError(ExecutorError):
    """Slurm's controller cannot be asked for now."""


class RefusedError(ExecutorError):
    """Slurm answered, and refused; ``said`` is what it printed."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


def asked(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """What one of Slurm's programs prints.

    Raises:
        ExecutorError: it is not there.
        AwayError: nobody answers it.
        RefusedError: it fails.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(  # noqa: S603 - Slurm's, by its name
                words, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=ANSWER_S, check=False
            )
        except FileNotFoundError:
            mend = "run this where jobs are submitted, with Slurm's programs on PATH"
            raise ExecutorError(f"no {words[0]} here; fix: {mend}") from None
        except PermissionError as error:
            raise ExecutorError(f"{words[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise AwayError(f"{words[0]} has not answered for {ANSWER_S:g} s") from None
        out.seek(0), err.seek(0)
        told, complaint = (file.read(MOST_BYTES).decode(errors="replace") for file in (out, err))
    if done.returncode == 0:
        return told
    said = complaint or told
    if away(said):
        raise AwayError(f"{words[0]}: {plain(said)}")
    raise RefusedError(f"{words[0]}: {plain(said) or f'status {done.returncode}'}", said)
