"""Jobs that never began, and interpreters that crashed.

What they assume: one port a job; the store's own counts; faulthandler names the thread that crashed.
"""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

BOUND = (
    "[W1120 10:41:22.101 socket.cpp:462] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - "
    "Address already in use).\n"
)
REFUSED = (
    'Traceback (most recent call last):\n  File "/usr/local/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
    "29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
)
AWAY = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 14, in <module>\n'
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {}/4 clients joined.\n"
)
RAISED = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/app/train.py", line 10, in step\n'
    "[rank1]: ValueError: bad label\n"
)
CRASH = (
    "Fatal Python error: Segmentation fault\n\n"
    "Thread 0x00007f2b81fff640 (most recent call first):\n"
    '  File "/app/reader.py", line 320 in wait\n\n'
    "Current thread 0x00007f2a11111111 (most recent call first):\n"
    '  File "/opt/lib/python3.11/site-packages/torch/nn/functional.py", line 88 in linear\n'
    '  File "/app/model.py", line 88 in Net.forward\n'
    '  File "/app/train.py", line 41 in main\n'
)
LOST = "[rank0]: RuntimeError: [/g/gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:1234\n"


def verdict(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


@pytest.mark.parametrize("said", [BOUND, REFUSED, BOUND + REFUSED, f"[rank0]: {BOUND}"])
def test_a_port_that_is_taken_is_said_with_how_to_find_who_has_it(tmp_path, said):
    found = verdict(tmp_path, job=said)
    assert (found.kind, found.ranks) == ("died", ())
    assert "port 29500" in found.cause
    assert "sport = :29500" in found.next


@pytest.mark.parametrize(("joined", "away"), [(3, "1 of 4 ranks"), (1, "3 of 4 ranks")])
def test_ranks_that_never_came_are_counted(tmp_path, joined, away):
    found = verdict(tmp_path, job=AWAY.format(joined))
    assert (found.kind, found.ranks) == ("hang", ())
    assert found.cause.startswith(f"{away} never came")


@pytest.mark.parametrize("said", [BOUND, AWAY.format(3)])
def test_a_ranks_own_exception_says_more(tmp_path, said):
    """A port may be taken when the job is started again after it."""
    assert verdict(tmp_path, job=RAISED + said).ranks == (1,)


@pytest.mark.parametrize("before", ["", "step 41 loss 0.2\n"], ids=["stacks alone", "below a log"])
def test_a_crash_is_of_the_rank_whose_file_it_is_with_the_line_of_the_thread_that_crashed(tmp_path, before):
    found = verdict(tmp_path, rank3=before + CRASH, rank0=LOST)
    assert (found.kind, found.ranks, found.line) == ("died", (3,), "/app/model.py:88 forward")


def test_a_crash_behind_the_ranks_prefix_has_its_line(tmp_path):
    found = verdict(tmp_path, job="".join(f"[rank3]: {line}" for line in CRASH.splitlines(keepends=True)) + LOST)
    assert (found.ranks, found.line) == ((3,), "/app/model.py:88 forward")


def test_a_crash_that_names_no_thread_has_no_line(tmp_path):
    """Another thread's stack is not where it happened."""
    found = verdict(tmp_path, rank3=CRASH.partition("Current")[0], rank0=LOST)
    assert (found.kind, found.ranks, found.line) == ("died", (3,), None)


def test_an_interpreter_that_was_aborted_is_no_cause(tmp_path):
    """A lost peer aborts it, too."""
    found = verdict(tmp_path, rank3=CRASH.replace("Segmentation fault", "Aborted"), rank0=LOST)
    assert found.ranks == ()


@pytest.mark.parametrize(
    ("line", "who", "why"),
    [
        (
            "gpu3:715:790 [1] socket.h:382 NCCL WARN Connect to 172.18.0.1<49273> failed : Connection refused\n",
            "gpu3",
            "Docker's bridge",
        ),
        (
            "[rank5]: Last error:\n[rank5]: socketStartConnect: Connect to fe80::966d:ae03:a2:8cf0%ib1<17943> failed : "
            "Software caused connection abort\n",
            "rank 5",
            "an address of one link alone",
        ),
        ("NCCL WARN Connect to 10.0.0.7<49273> failed : No route to host\n", "a rank", "(No route to host)"),
    ],
)
def test_an_address_that_nccl_could_not_reach_is_told_with_the_setting_that_chooses_it(tmp_path, line, who, why):
    found = verdict(tmp_path, job=line)
    assert (found.kind, found.ranks, found.sure) == ("network", (), "unsure")
    assert found.cause.startswith(f"{who} could not connect to ")
    assert why in found.cause
    assert "NCCL_SOCKET_IFNAME" in found.next


def test_a_rank_that_raised_is_the_cause_and_not_that_others_could_not_connect_to_it(tmp_path):
    line = "gpu3:715:790 [1] NCCL WARN socketStartConnect: Connect to 10.0.0.7<49273> failed : Connection refused\n"
    assert verdict(tmp_path, job=RAISED + line).ranks == (1,)


def test_tries_that_nccl_goes_on_from_are_no_failure(tmp_path):
    line = "gpu3:715:790 [1] NCCL INFO Call to connect returned Connection refused, retrying\n"
    assert verdict(tmp_path, job=line) is None


def first_call(rank, error, first=0):
    return (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/app/train.py", line 31, in main\n'
        f"[rank{rank}]: torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving "
        f"ncclUniqueId from [{first}] via c10d key-value store by key '0', but store->get('0') got error: {error}\n"
    )


LATE = "wait timeout after 600000ms, keys: {}0//cuda//0"


def test_the_rank_that_did_not_come_to_the_first_collective_is_named(tmp_path):
    """All the others raise the same, and it is not the program's."""
    found = verdict(
        tmp_path, job=first_call(7, LATE.format("/default_pg/")) + first_call(3, LATE.format("/default_pg/"))
    )
    assert (found.kind, found.ranks, found.victims) == ("hang", (0,), (3, 7))
    assert "did not come to the first collective of the group" in found.cause


def test_of_several_groups_the_default_one_names_its_rank(tmp_path):
    other = LATE.format("/default_pg/").replace("/default_pg/0/", "/default_pg/3/")
    found = verdict(tmp_path, job=first_call(6, other, first=2) + first_call(3, LATE.format("/default_pg/")))
    assert (found.kind, found.ranks) == ("hang", (0,))


@pytest.mark.parametrize("key", ["/0//cuda//0", "/default_pg/3//cuda//0"])
def test_the_first_rank_of_a_group_that_is_not_known_is_no_rank_of_the_job(tmp_path, key):
    """PyTorch puts the keys of every group below those of the default one."""
    late = f"wait timeout after 600000ms, keys: {key}"
    found = verdict(tmp_path, job=first_call(7, late) + first_call(3, late))
    assert (found.kind, found.ranks) == ("hang", ())
    assert "rank 0 of a group that is not named" in found.cause


def test_who_lost_the_store_at_the_first_collective_is_a_victim(tmp_path):
    text = first_call(7, "Connection reset by peer") + RAISED
    found = verdict(tmp_path, job=text)
    assert (found.kind, found.ranks, found.victims) == ("died", (1,), (7,))


@pytest.mark.parametrize("rank", ["", "[rank5]: "])
def test_a_rank_that_never_reached_the_meeting_place_is_told_with_it(tmp_path, rank):
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 12, in <module>',
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
        "(node-0, 29500).",
    ]
    found = verdict(tmp_path, job="".join(f"{rank}{line}\n" for line in lines))
    assert (found.kind, found.ranks) == ("hang", ())
    assert f"{'rank 5' if rank else 'a rank'} could not connect to node-0:29500, where the ranks meet" in found.cause
    assert "nc -vz node-0 29500" in found.next


def test_that_agents_did_not_meet_again_is_not_why_a_rank_was_killed_before(tmp_path):
    killed = (
        "E0512 10:00:02 140 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: "
        "1 (pid: 143) of binary: /opt/conda/bin/python\n"
    )
    gone = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
    found = verdict(tmp_path, job=f"{killed}Traceback (most recent call last):\n{gone}")
    assert "was killed (SIGKILL)" in found.cause


def test_a_rendezvous_to_which_too_few_nodes_came_is_told(tmp_path):
    text = (
        'Traceback (most recent call last):\n  File "/usr/local/bin/torchrun", line 8, in <module>\n'
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
    )
    found = verdict(tmp_path, job=text)
    assert (found.kind, found.ranks, found.line) == ("hang", (), None)
    assert "too few nodes came" in found.cause


def at_the_barrier(rank, size, came, prefix=True):
    said = (
        'Traceback (most recent call last):\n  File "/app/train.py", line 20, in main\n    dist.init_process_group()\n'
        '  File "/opt/torch/distributed/distributed_c10d.py", line 547, in init_process_group\n'
        f"RuntimeError: Timed out initializing process group in store based barrier on rank: {rank}, for key: "
        f"store_based_barrier_key:1 (world_size={size}, worker_count={came}, timeout=0:30:00)\n"
    )
    return "".join(f"{f'[rank{rank}]: ' if prefix else ''}{line}\n" for line in said.splitlines())


@pytest.mark.parametrize("prefix", [True, False])
def test_the_rank_that_never_came_to_init_process_group_is_named_where_all_others_waited(tmp_path, prefix):
    """Each tells how many came; those whose lines are not here may be the others."""
    waits = [at_the_barrier(rank, 4, 3, prefix) for rank in (0, 1, 3)]
    found = verdict(tmp_path, **{"job.log": "".join(waits)})
    assert (found.kind, found.ranks, found.victims, found.sure) == ("hang", (2,), (0, 1, 3), "likely")
    found = verdict(tmp_path, **{"job.log": "".join(waits[:2])})
    assert (found.kind, found.ranks, found.sure) == ("hang", (), "unsure")
    assert found.cause.startswith("1 of 4 ranks never came to init_process_group, within 0:30:00")


def test_more_ranks_than_the_group_has_are_of_another_world_or_run(tmp_path):
    found = verdict(tmp_path, **{"job.log": at_the_barrier(2, 2, 4, prefix=False)})
    assert (found.kind, found.ranks) == ("hang", ())
    assert found.cause.startswith("4 ranks came to init_process_group of a group of 2: ")


def models(own, count, other, inconsistent):
    said = (
        'Traceback (most recent call last):\n  File "/app/train.py", line 67, in main\n    model = DDP(model)\n'
        '  File "/opt/torch/nn/parallel/distributed.py", line 825, in __init__\n'
        f"RuntimeError: DDP expects same model across all ranks, but Rank {own} has {count} params, while rank {other} "
        f"has inconsistent {inconsistent} params.\n"
    )
    return "".join(f"[rank{own}]: {line}\n" for line in said.splitlines())


def test_the_rank_whose_model_differs_from_the_others_is_named_and_not_who_says_so(tmp_path):
    """Each compares with one other: of two alone nobody is accused."""
    log = "".join(models(rank, 59, 3, 48) for rank in (0, 1, 2)) + models(3, 48, 0, 59)
    found = verdict(tmp_path, job=log)
    assert (found.kind, found.ranks, found.victims, found.sure) == ("died", (3,), (0, 1, 2), "likely")
    assert found.cause.startswith("the model of rank 3 has 48 parameters where the others' have 59")
    found = verdict(tmp_path, job=models(0, 161, 1, 0))
    assert (found.kind, found.ranks, found.sure) == ("died", (), "unsure")
    assert "rank 0 161, rank 1 0" in found.cause
    assert verdict(tmp_path, job=models(0, 161, 1, 0) + RAISED).ranks == (1,)


@pytest.mark.parametrize(
    "said",
    [
        "Message truncated : received 524288 bytes instead of 65536",
        "NET/Socket : peer 10.0.0.2<43000> message truncated : receiving 8 bytes instead of 4. If you believe",
        "NET/IB : req 0/1 tag 0 peer 10.10.23.6<58683> collective mismatch error, local size 496640 remote size 65536",
    ],
)
def test_a_rank_that_received_another_size_by_nccl_is_a_victim(tmp_path, said):
    """Its peer may as well be the one that differs."""
    log = (
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/app/t.py", line 3, in f\n'
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1333, invalid usage, NCCL version 2.14.3\n"
        "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        f"[rank1]: Last error:\n[rank1]: {said}\n"
    )
    found = verdict(tmp_path, job=log)
    assert (found.kind, found.ranks, found.victims, found.sure) == ("collective_mismatch", (), (1,), "unsure")
    assert found.others_line == "/app/t.py:3 f"
    assert verdict(tmp_path, job=log.replace("[rank1]", "[rank0]") + RAISED).kind == "died"


def unlike(rank, what):
    said = {
        "DDP": f"[{rank}]: params[0] in this process with sizes [10, 20] appears not to match sizes of the same param "
        "in process 0.",
        "DeepSpeed": f"disagreement between rank0 and rank{rank}: rank0: [3, 4], rank{rank}: [3, 5]",
    }[what]
    return (
        f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/app/train.py", line 67, in main\n'
        f"[rank{rank}]:     model = wrap(model)\n[rank{rank}]: RuntimeError: {said}\n"
    )


@pytest.mark.parametrize("what", ["DDP", "DeepSpeed"])
@pytest.mark.parametrize(("who", "named"), [((2,), (2,)), ((1, 2, 3), (0,)), ((1, 2), ())])
def test_ranks_that_compare_with_rank_0_say_together_who_is_the_odd_one(tmp_path, what, who, named):
    """The one that differs, or rank 0 where all others do; where half of them do nobody."""
    here = "".join(f"[rank{rank}]: step 1\n" for rank in range(4))
    found = verdict(tmp_path, job=here + "".join(unlike(rank, what) for rank in who))
    assert (found.kind, found.ranks) == ("died", named)


def test_of_two_ranks_that_differ_none_is_named(tmp_path):
    """By DDP's parameters, and by FSDP's order."""
    assert verdict(tmp_path, job="[rank0]: step 1\n" + unlike(1, "DDP")).ranks == ()
    said = "Forward order differs across ranks: rank 0 is all-gathering 1 parameters while rank 1 is all-gathering 2"
    log = f'Traceback (most recent call last):\n  File "/app/t.py", line 3, in f\nRuntimeError: {said} parameters\n'
    found = verdict(tmp_path, job="".join(f"[rank0]: {line}\n" for line in log.splitlines()))
    assert (found.kind, found.ranks, found.others_line) == ("collective_mismatch", (), "/app/t.py:3 f")
