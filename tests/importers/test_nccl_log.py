"""Logs of NCCL's INFO, as versions from 2.4 to 2.28 write them: what each rank says of itself, and who differs.

Rule of this file: logs are made up in the formats of real ones.
"""

import io

import pytest

from importers.__main__ import main
from importers.nccl_log import NcclLogs
from importers.nccl_log_lines import MOST_LINE, Channel, Init, Told, Warned, bare_version, speech
from importers.notes import Notes, SourceError
from paceline import wire
from tests.streams.job_lines import JobDiagnosis

WORLD = 8


def log_of(rank, *, version="2.21.5+cuda12.4", network="IB", channels=16, world=WORLD, comm="0xfeed", **changes):
    """What one rank of a job on nodes of four writes, in NCCL 2.21's words."""
    host, local = f"node-{rank // 4}", rank % 4
    pid = changes.get("pid", 1000 + rank)
    via = {"IB": f"NET/IB/{local}/GDRDMA", "Socket": "NET/Socket/0"}.get(network, f"NET/{network}/0")
    said = [
        (pid, "cudaDriverVersion 12040"),
        (pid, f"Bootstrap : Using eth0:10.0.0.{rank}<0>"),
        (pid, f"NCCL version {version}"),
        (pid + 5000, "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol."),
        (pid + 5000, "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation"),
        (pid + 5000, f"NCCL_SOCKET_IFNAME set by environment to eth{rank // 4}"),
        (pid + 5000, f"NCCL_ALGO set by environment to {changes.get('algo', 'Ring')}."),
        (pid + 5000, f"Using network {network}"),
        (pid + 5000, f"comm 0x55f0 rank {rank} nranks {world} cudaDev {local} nvmlDev {local} busId 18000 commId {comm}"
         " - Init START"),
        (pid + 5000, "Channel 00/16 :    0   1   2   3"),
        (pid + 5000, f"Channel 00/0 : {rank}[{local}] -> {rank + 1}[{local + 1}] via P2P/CUMEM/read"),
        (pid + 5000, f"Channel 01/0 : {rank}[{local}] -> {rank + 4}[{local}] [send] via {via}"),
        (pid + 5000, f"{channels} coll channels, {channels} collnet channels, 0 nvls channels, {channels} p2p channels,"
         " 2 p2p channels per peer"),
        (pid + 5000, f"comm 0x55f0 rank {rank} nranks {world} cudaDev {local} nvmlDev {local} busId 18000 commId {comm}"
         " - Init COMPLETE"),
    ]  # fmt: skip
    return [f"{host}:{pid}:{tid} [{local}] NCCL INFO {text}" for tid, text in said]


def load(*files, job="job"):
    notes = Notes()
    logs = NcclLogs(job, notes)
    for lines in files:
        logs.read(io.BytesIO("\n".join(lines).encode() + b"\n"), 1_795_000_000.0)
    events = [wire.decode(message.topic, wire.encode(message.event)) for message in logs.messages()]
    facts = {
        rank: {fact: said[at] for fact, said in event.facts.words.items() if said[at]}
        for event in events
        for at, rank in enumerate(event.facts.ranks)
    }
    return facts, events, notes


def job(**odd):
    """A log of eight ranks; ``odd`` is what rank 3 has of its own."""
    return [log_of(rank, **(odd if rank == 3 else {})) for rank in range(WORLD)]


@pytest.mark.parametrize("files", ["each", "one"])
def test_ranks_say_the_same_in_one_file_or_in_many(files):
    """Also where the lines of all ranks stand mixed."""
    logs = job()
    mixed = [line for lines in zip(*logs, strict=True) for line in lines]
    facts, events, notes = load(*logs) if files == "each" else load(mixed)
    assert facts[3] == {
        "nccl_version": "2.21.5+cuda12.4",
        "cuda_driver": "12.4",
        "network": "IB",
        "net_plugin": "internal",
        "channels": "16 coll, 16 p2p",
        "transport_between": "NET/IB",
        "transport_inside": "P2P/CUMEM",
        "gpu_direct": "yes",
        "NCCL_ALGO": "Ring",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
    assert [(event.node, event.facts.ranks) for event in events] == [("node-0", [0, 1, 2, 3]), ("node-1", [4, 5, 6, 7])]
    (remark,) = notes.remarks
    assert remark == (
        "8 ranks: NCCL 2.21.5+cuda12.4, CUDA driver 12.4, network IB, network plugin internal, P2P/CUMEM inside nodes, "
        "NET/IB between them, channels 16 coll, 16 p2p"
    )
    assert not notes.dropped


def judged(events):
    decision = JobDiagnosis()
    return [finding for event in events for finding in decision.update(event)]


def test_a_job_whose_ranks_agree_is_no_finding():
    """Interfaces differ between its nodes, which is as it should be."""
    _, events, _ = load(*job())
    assert judged(events) == []


@pytest.mark.parametrize(
    ("odd", "fact", "word"),
    [
        ({"version": "2.19.3+cuda12.3"}, "nccl_version", "2.19.3+cuda12.3"),
        ({"network": "Socket"}, "transport_between", "NET/Socket"),
        ({"channels": 2}, "channels", "2 coll, 2 p2p"),
        ({"algo": "Tree"}, "NCCL_ALGO", "Tree"),
    ],
)
def test_who_differs_is_named(odd, fact, word):
    """In the remark of the import where it is a fact that people look for, and as a finding."""
    _, events, notes = load(*job(**odd))
    last = judged(events)[-1]
    assert (last.kind, last.cause, last.state, last.ranks) == (
        "configuration_mismatch",
        "configuration",
        "confirmed",
        [3],
    )
    assert (fact, 3) in {(one.name, one.rank) for one in last.evidence}
    assert word in last.summary
    assert fact == "NCCL_ALGO" or any("rank 3" in remark and word in remark for remark in notes.remarks)


def test_who_fell_back_to_sockets_is_told():
    """One rank, or all of them, which is no difference and slow all the same."""
    assert "fell back to sockets between nodes: rank 3" in load(*job(network="Socket"))[2].remarks
    everyone = [log_of(rank, network="Socket") for rank in range(WORLD)]
    _, events, notes = load(*everyone)
    assert any(remark.startswith("fell back to sockets between nodes: 8 ranks") for remark in notes.remarks)
    assert judged(events) == []


def test_one_process_may_be_several_ranks():
    """As nccl-tests with -g: a thread a rank; what the main thread says holds for all, connections for their own."""
    prefix = "n:7"
    lines = [f"{prefix}:7 [0] NCCL INFO {text}" for text in ("cudaDriverVersion 12040", "NCCL version 2.18.3+cuda12.2")]
    for rank, via in enumerate(("P2P/IPC", "SHM/direct/direct")):
        comm = f"comm 0x1 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId 1 commId 0x2"
        lines += [
            f"{prefix}:{20 + rank} [{rank}] NCCL INFO {comm} - Init START",
            f"{prefix}:{20 + rank} [{rank}] NCCL INFO {comm} - Init COMPLETE",
            # Since 2.22 connections are made by another thread, at the first use.
            f"{prefix}:{40 + rank} [{rank}] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {via}",
        ]
    facts, _, _ = load(lines)
    assert [facts[rank]["transport_inside"] for rank in range(2)] == ["P2P/IPC", "SHM"]
    assert {told["nccl_version"] for told in facts.values()} == {"2.18.3+cuda12.2"}


def test_ranks_are_those_of_the_largest_communicator():
    """Groups of tensor parallel ranks have numbers of their own, and channels of their own."""
    lines = log_of(5, channels=16)
    small = "node-1:1005:6005 [1] NCCL INFO"
    split = f"{small} ncclCommSplit comm 0x9 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 18000 parent 0x5 color 7 key 1"
    lines += [
        f"{split} - Init START",
        f"{small} 4 coll channels, 0 nvls channels, 4 p2p channels, 4 p2p channels per peer",
        f"{split} - Init COMPLETE",
    ]
    facts, _, notes = load(lines)
    assert facts[5]["channels"] == "16 coll, 16 p2p"
    assert any(remark.startswith("1 of 8 ranks: ") for remark in notes.remarks)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NCCL version 2.28.3+cuda13.0", Told("nccl_version", "2.28.3+cuda13.0")),
        ("RCCL version : 2.26.6-HEAD:f224e2c", Told("nccl_version", "2.26.6-HEAD:f224e2c")),
        ("RCCL version 2.18.3+hip6.0 HEAD:2f6d59e+", Told("nccl_version", "2.18.3+hip6.0 HEAD:2f6d59e+")),
        ("RCCL version 2.10.3+hip5.0", Told("nccl_version", "2.10.3+hip5.0")),
        ("NET/Plugin: Could not find: librccl-net.so. Using internal network plugin.", Told("net_plugin", "internal")),
        ("NET/Plugin : No plugin found (librccl-net.so), using internal implementation",
         Told("net_plugin", "internal")),
        ("Channel 00/0 : 0[d6000] -> 3[c6000] via P2P/IPC comm 0x9bbf3b0 nRanks 4096",
         Channel("", "P2P/IPC", direct=False)),
        ("Channel 00/0 : 4092[d6000] -> 0[d6000] [receive] via NET/AWS Libfabric/2/GDRDMA comm 0x9bbf3b0 nRanks 4096",
         Channel("NET/AWS Libfabric", "", direct=True)),
        ("Channel 02/0 : 1[c6000] -> 4[c1000] [send] via NET/Socket/1 comm 0x95cdeb0 nRanks 08",
         Channel("NET/Socket", "", direct=False)),
        ("Channel 00 : 0[e3000] -> 1[c3000] via P2P/IPC comm 0x7f53bc000e50 nRanks 04",
         Channel("", "P2P/IPC", direct=False)),
        ("comm 0x2ceb0ba0 rank 3 nRanks 4 nNodes 1 localRanks 4 localRank 3 MNNVL 0", None),
        ("Setting hipLimitStackSize to 512 maxLocalSizeBytes 0", None),
        ("RCCL version 2.22.3+hip6.4", Told("nccl_version", "2.22.3+hip6.4")),
        ("Using network AWS Libfabric", Told("network", "AWS Libfabric")),
        ("Assigned NET plugin Socket to comm", Told("network", "Socket")),
        ("NET/Plugin: Loaded net plugin Libfabric (v10)", Told("net_plugin", "Libfabric (v10)")),
        ("NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.", Told("net_plugin", "internal")),
        ("NET/Plugin : dlerror=x No plugin found (libnccl-net.so), using internal implementation",
         Told("net_plugin", "internal")),
        ("P2P plugin IBext_v8", Told("net_plugin", "IBext_v8")),
        ("NCCL_IB_HCA set to mlx5_0", Told("NCCL_IB_HCA", "mlx5_0")),
        ("2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
         Told("channels", "2 coll, 2 p2p")),
        ("16 coll channels, 0 collnet channels, 16 nvls channels, 16 p2p channels, 1 p2p channels per peer",
         Told("channels", "16 coll, 16 nvls, 16 p2p")),
        ("Channel 00/32 :    0   1   2", None),
        ("Channel 01/0 : 8[27000] -> 15[ca000] via P2P/IPC/read", Channel("", "P2P/IPC", direct=False)),
        ("Channel 00 : 2[1] -> 0[0] via SHM/direct/direct", Channel("", "SHM", direct=False)),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer comm 0x5 nRanks 02",
         Channel("", "P2P/direct pointer", direct=False)),
        ("Channel 03/0 : 7[3] -> 3[3] [receive] via NET/IBext_v8/3(2)/GDRDMA",
         Channel("NET/IBext_v8", "", direct=True)),
        ("Channel 03/0 : 7[3] -> 3[3] [send] via NET/AWS Libfabric/3/GDRDMA/Shared",
         Channel("NET/AWS Libfabric", "", direct=True)),
        ("Ring 00 : 35 -> 34 [send] via NET/Socket/0", Channel("NET/Socket", "", direct=False)),
        ("comm 0x7efe rank 15 nranks 64 cudaDev 0 nvmlDev 0 - Init COMPLETE", Init(15, 64, "", complete=True)),
        ("ncclCommInitRankConfig comm 0x5 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId 196000 commId 0x2fb9 - Init START",
         Init(6, 8, "0x2fb9", complete=False)),
        ("Init timings - ncclCommSplit: rank 0 nranks 2 total 0.15", None),
        ("Connected all rings", None),
    ],
)  # fmt: skip
def test_lines_of_many_versions(text, said):
    """What each of them says."""
    speaker, told = speech(f"host-1:7:9 [3] NCCL INFO {text}")
    assert (speaker.host, speaker.pid, speaker.tid, speaker.device, told) == ("host-1", 7, 9, "3", said)


@pytest.mark.parametrize(
    "before",
    ["", "[1,0]<stdout>:", "0: ", "[rank3]: ", "[2026-11-22 10:00:00] ", "2026-11-22T07:42:11.525Z | ", "pod/x: "],
)
def test_launchers_put_their_own_before_it(before):
    """And NCCL a time before a warning, and its place behind."""
    speaker, _ = speech(f"{before}h:7:9 [3] NCCL INFO Using network IB")
    assert speaker == ("h", 7, 9, "3")
    speaker, told = speech(f"{before}h:7:9 [3] misc/socket.cc:441 NCCL WARN Connection closed by peer")
    assert (speaker, told) == (("h", 7, 9, "3"), Warned("Connection closed by peer"))


@pytest.mark.parametrize(
    "line",
    ["", "NCCL INFO x", " NCCL INFO x", "h:7 [0] NCCL INFO x", "h:a:b [0] NCCL INFO x", "h:7:9 0 NCCL INFO x"],
)
def test_a_line_of_others_is_none(line):
    """Whatever mentions NCCL."""
    assert speech(line) is None


def test_a_version_without_a_name_is_that_of_a_file_of_one_process():
    """Rank 0 writes it for all; in a file of several processes nobody knows whose it is, and that is said."""
    assert bare_version("NCCL version 2.19.3+cuda12.3\n") == "2.19.3+cuda12.3"
    logs = [[line for line in log_of(rank) if "NCCL version" not in line] for rank in range(WORLD)]
    logs[0] = ["NCCL version 2.19.3+cuda12.3", *logs[0]]
    facts, _, _ = load(*logs)
    assert facts[0]["nccl_version"] == "2.19.3+cuda12.3"
    assert "nccl_version" not in facts[1]
    facts, _, notes = load([line for lines in logs for line in lines])
    assert not any("nccl_version" in told for told in facts.values())
    assert any("2.19.3" in remark and "name no process" in remark for remark in notes.remarks)


def test_warnings_are_told_with_their_rank_and_bounded():
    """Each once, with how often it came."""
    log = log_of(2) + ["node-0:1002:6002 [2] misc/ib.cc:9 NCCL WARN NET/IB : no link"] * 3
    log += [f"node-0:1002:6002 [2] NCCL WARN another {number}" for number in range(50)]
    _, _, notes = load(log)
    assert "rank 2 warns (3 times): NET/IB : no link" in notes.remarks
    assert len(notes.remarks) < 12


def test_two_jobs_are_refused():
    """By two processes that are one rank, by communicators that have nothing in common; or there is no rank at all."""
    with pytest.raises(SourceError, match="two processes are rank 0"):
        load(log_of(0), log_of(0, pid=77))
    with pytest.raises(SourceError, match="different communicators"):
        load(log_of(0), log_of(1, comm="0xbeef"))
    with pytest.raises(SourceError, match="NCCL_DEBUG=INFO"):
        load(["nothing of NCCL"])


def test_what_is_impossible_is_no_rank():
    """A rank beyond its communicator, a communicator larger than any, a line without end."""
    world = 2**40
    lines = log_of(1) + log_of(9, pid=55) + log_of(1, world=world, pid=56)
    lines += ["node-0:1001:6001 [1] NCCL INFO NCCL_BIG set by environment to " + "x" * 3 * MOST_LINE]
    facts, _, notes = load(lines)
    assert list(facts) == [1]
    assert sum(notes.dropped.values()) > 0


def test_threads_and_words_are_bounded(monkeypatch):
    """A hostile log of many threads or variables costs no memory without end."""
    monkeypatch.setattr("importers.nccl_log.MOST_THREADS", 10)
    many = [f"node-0:1001:{tid} [1] NCCL INFO Using network IB" for tid in range(7000, 7100)]
    variables = [f"node-0:1001:6001 [1] NCCL INFO NCCL_V{number} set by environment to 1." for number in range(500)]
    facts, _, notes = load(log_of(1) + variables + many)
    assert len(facts[1]) < 100
    assert sum(notes.dropped.values()) == 92


def test_the_command_makes_a_recording(tmp_path, capsys):
    """And says on standard error what the ranks say."""
    for rank, lines in enumerate(job(network="Socket")):
        (tmp_path / f"nccl.{rank}.log").write_text("\n".join(lines))
    out = tmp_path / "run.jsonl"
    assert main(["nccl-log", str(tmp_path / "nccl.*.log"), "-o", str(out), "--job", "mine"]) == 0
    said = capsys.readouterr().err
    assert "fell back to sockets between nodes: rank 3" in said
    assert "messages of job mine" in said


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("RCCL version : 2.22.3-HEAD:7d8d67c+", "2.22.3-HEAD:7d8d67c+"),
        ("RCCL version : 2.27.7-develop:29e1567", "2.27.7-develop:29e1567"),
        ("RCCL version 2.16.5+hip5.6 HEAD:3dcebc7+", "2.16.5+hip5.6 HEAD:3dcebc7+"),
        ("RCCL version 2.19.4", "2.19.4"),
        ("HIP version  : 6.4.43484-123eb5128", None),
        ("RCCL version of this job is 2.19.4", None),
    ],
)
def test_the_version_that_rccl_writes_alone_on_a_line(line, version):
    """With its commit, for two builds of one version differ."""
    assert bare_version(line) == version


def test_ranks_on_rccl_of_different_builds_are_told():
    """As those on different versions of NCCL are: only the commit differs."""
    logs = []
    for rank in range(WORLD):
        commit = "2b22ab0" if rank == 3 else "7d8d67c"
        lines = log_of(rank)
        speaker = lines[0].partition(" NCCL INFO ")[0]
        kept = [line for line in lines if "version" not in line]
        logs.append([f"{speaker} NCCL INFO RCCL version : 2.22.3-HEAD:{commit}", *kept])
    facts, _, _ = load(*logs)

    assert {rank: told["nccl_version"] for rank, told in facts.items()} == {
        rank: "2.22.3-HEAD:2b22ab0" if rank == 3 else "2.22.3-HEAD:7d8d67c" for rank in range(WORLD)
    }
