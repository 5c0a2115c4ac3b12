"""The pipeline's example, of which rank 1 is killed while it goes on from the checkpoint."""

import os
import signal

from paceline.balance import layer_checkpoint, pipeline_example


def dies(*_: object, **__: object) -> None:
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)


layer_checkpoint.load = dies
pipeline_example.main()
