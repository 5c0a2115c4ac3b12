import os
import signal

import pytest

from collectors.benchmark.local_ranks import LocalRanks, RankError


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_a_rank_that_hangs_is_killed_and_told(until):
    """Ranks that wait for one that stands still say nothing more, and none of them is left."""
    import torch

    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks = LocalRanks(2, "gloo", store.port, 2**20, 600.0, os.environ, silent_s=10.0)
    pids = ranks.pids
    try:
        os.kill(pids[1], signal.SIGSTOP)
        until(lambda: os.pread(ranks._outputs[0].fileno(), 1, 0))  # The other one is up.
        starts = []
        with pytest.raises(RankError, match=r"may hang: 1; killed"):
            ranks.run(lambda size: None, lambda size, speeds: None, lambda: starts.append(True))
        assert starts
    finally:
        ranks.close()

    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
