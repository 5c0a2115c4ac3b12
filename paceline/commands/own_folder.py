"""A folder of one command's own, for the sockets that ranks connect to.

Rule of this file: a place that takes a folder is enough; nothing is written to try it, for a full disk takes folders.
"""

import os
import tempfile
from collections.abc import Mapping


def own_folder(environ: Mapping[str, str]) -> str:
    """A new folder that is ours alone, in the first place that takes one.

    Raises:
        OSError: none does; of what is tried first.
    """
    named = [environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    refused: list[OSError] = []
    for place in filter(None, [*named, "/tmp", "/var/tmp", environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"]):  # noqa: S108
        try:
            return tempfile.mkdtemp(prefix="paceline-", dir=os.path.abspath(place))
        except OSError as error:
            refused.append(error)
    raise refused[0]
