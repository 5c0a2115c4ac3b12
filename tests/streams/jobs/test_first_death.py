"""Who ended first, from how each rank's process ended."""

import pytest

from streams.jobs.first_death import Blockage, End, first_death

RANKS = 4
GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:21504"
PEER = {"how": "exception", "error": "RuntimeError", "message": GLOO, "status": 1}
OWN = {"how": "exception", "error": "ValueError", "message": "bad loss 3.5", "line": "train.py:88 step", "status": 1}
TERM = {"how": "lost", "status": -15}
KILL = {"how": "lost", "status": -9}
CLEAN = {"how": "exit", "status": 0}
CTRL_C = {"how": "exception", "error": "KeyboardInterrupt", "status": 1}
GONE = {"how": "lost"}
LATE = {"out_of_time": True}
ABORTED = {"how": "lost", "status": -6}
HANG = Blockage("the job had hung in all_reduce #7: rank 2 has not called it", "train.py:45", "look at it", (2,))


@pytest.fixture
def judge():
    """The verdict on ranks that end one after the other, a tenth of a second apart."""

    def of(*ends, expected=RANKS, apart=0.1, nodes=("gpu-1",), hang=None):
        made = [
            End(rank=rank, node=nodes[rank % len(nodes)], **({"time_s": 100.0 + apart * rank} | end))
            for rank, end in enumerate(ends)
            if end is not None
        ]
        return first_death({one.rank: one for one in made}, expected, hang)

    return of


def test_a_job_that_ends_well_has_no_death(judge):
    assert judge(CLEAN, CLEAN, CLEAN, CLEAN) is None
    assert judge(CLEAN, expected=1) is None
    assert judge({"how": "exit"}, {"how": "exit"}, CLEAN, CLEAN) is None


@pytest.mark.parametrize("other", [PEER, TERM, GONE, None])
def test_an_own_exception_is_named_with_its_line_whatever_became_of_the_others(judge, other):
    found = judge(other, other, OWN, other)
    assert (found.ranks, found.line, found.sure) == ((2,), "train.py:88 step", "certain")
    assert found.why == "ValueError at train.py:88 step (bad loss 3.5)"


def test_an_exception_raised_while_a_lost_peer_was_handled_is_a_victims(judge):
    wrapped = OWN | {"first": f"RuntimeError: {GLOO}"}
    assert judge(wrapped, PEER, OWN, TERM).ranks == (2,)


@pytest.mark.parametrize("error", ["torch.distributed.DistBackendError", "RuntimeError"])
def test_an_error_of_the_network_alone_names_nobody(judge, error):
    ends = [PEER | {"error": error}] * RANKS
    found = judge(*ends)
    assert (found.ranks, found.sure) == ((), "unsure")


def test_the_same_words_of_an_error_that_is_not_pytorchs_are_the_ranks_own(judge):
    """A download that the script itself makes."""
    own = {"how": "exception", "error": "requests.ConnectionError", "message": "Connection reset by peer", "status": 1}
    assert judge(PEER, own, PEER, PEER).ranks == (1,)


def test_the_same_exception_at_all_ranks_is_the_programs(judge):
    ends = [OWN | {"message": f"bad loss {rank}.5"} for rank in range(RANKS)]
    found = judge(*ends)
    assert (found.ranks, found.line, found.sure) == ((), "train.py:88 step", "certain")


def test_the_same_exception_at_half_of_the_ranks_is_the_programs_where_the_launcher_ended_the_others(judge):
    assert judge(OWN, OWN, TERM, TERM).ranks == ()
    assert judge(OWN, OWN, OWN, KILL).ranks == ()
    assert judge(OWN, OWN, PEER, PEER).ranks == (0, 1)


def test_of_different_exceptions_the_first_by_number_of_collectives_counts(judge):
    late = OWN | {"error": "KeyError", "group": "world", "seq": 9}
    early = OWN | {"group": "world", "seq": 7}
    assert judge(late, PEER, early, PEER).ranks == (2,)
    assert judge(late, PEER, early | {"group": "tp"}, PEER).sure == "unsure", "numbers of two groups do not compare"


def test_of_different_exceptions_the_first_by_the_clock_of_one_node_counts(judge):
    other = OWN | {"error": "KeyError"}
    assert judge(other, PEER, OWN, PEER, apart=2.0).ranks == (0,)
    both = judge(other, PEER, OWN, PEER)
    assert (both.ranks, both.sure) == ((0, 2), "unsure")
    assert judge(other, OWN, PEER, PEER, apart=60.0, nodes=("gpu-1", "gpu-2")).sure == "unsure", "two clocks"


@pytest.mark.parametrize(("status", "words"), [(-9, "SIGKILL"), (-11, "SIGSEGV"), (-7, "SIGBUS"), (-6, "SIGABRT")])
@pytest.mark.parametrize("other", [PEER, None, GONE])
def test_a_signal_that_no_launcher_sends_first_is_named(judge, status, words, other):
    found = judge(other, other, KILL | {"status": status}, other)
    assert found.ranks == (2,)
    assert words in found.why
    assert found.next == "dmesg -T | tail -50 on node gpu-1"


def test_a_kill_is_named_though_the_launcher_ends_the_others_by_sigterm_and_then_by_sigkill(judge):
    assert judge(KILL, TERM, TERM, TERM).ranks == (0,)
    assert judge(TERM, KILL | {"time_s": 99.9}, TERM, KILL | {"time_s": 130.0}).ranks == (1,)


def test_a_kill_for_memory_is_said_so(judge):
    found = judge(PEER, KILL | {"oom_kills": 1}, PEER, PEER)
    assert (found.ranks, found.memory) == ((1,), True)


def test_that_the_kernel_killed_another_process_of_the_group_names_no_rank_that_left_in_good_order(judge):
    """A loader's worker, or a neighbour in the same group."""
    assert judge(*[CLEAN | {"oom_kills": 1}] * RANKS) is None


def test_an_abort_that_follows_from_a_kill_is_no_cause(judge):
    abort = KILL | {"status": -6}
    assert judge(abort, abort, KILL, abort).ranks == (2,)


@pytest.mark.parametrize("end", [TERM, CTRL_C, {"how": "exit", "status": 130}, KILL])
def test_a_job_that_is_ended_from_outside_names_nobody(judge, end):
    found = judge(end, end, end, end)
    assert found.ranks == ()


def test_what_fails_because_of_ctrl_c_names_nobody(judge):
    worker = OWN | {"error": "RuntimeError", "message": "DataLoader worker (pid 7) exited unexpectedly"}
    assert judge(CTRL_C, PEER, worker, KILL | {"status": -6}).ranks == ()


def test_an_exception_before_ctrl_c_is_still_named(judge):
    """The others hung, and the user ended the job."""
    assert judge(CTRL_C | {"time_s": 160.0}, CTRL_C | {"time_s": 160.0}, OWN, TERM | {"time_s": 160.0}).ranks == (2,)


def test_the_kill_that_follows_a_sigterm_that_a_rank_ignored_names_nobody(judge):
    assert judge(TERM, TERM, TERM, KILL | {"time_s": 130.0}).ranks == ()


@pytest.mark.parametrize("end", [CLEAN, {"how": "exit"}])
def test_a_rank_that_left_while_the_others_needed_it_is_named(judge, end):
    found = judge(PEER, PEER, end, TERM)
    assert found.ranks == (2,)
    assert "exit status 0" in found.why


def test_a_rank_that_left_in_answer_to_sigterm_is_not_named(judge):
    assert judge(TERM, CLEAN, TERM, TERM).ranks == ()


def test_half_of_the_ranks_that_left_name_nobody(judge):
    assert judge(CLEAN, CLEAN, PEER, PEER).ranks == ()


def test_an_exception_of_another_thread_explains_why_its_rank_left(judge):
    thread = {"how": "exit", "status": 0, "error": "KeyError", "line": "train.py:9 load", "thread": "reader"}
    found = judge(PEER, PEER, thread, TERM)
    assert (found.ranks, found.line) == ((2,), "train.py:9 load")
    assert "in thread reader" in found.why


def test_an_exception_that_may_have_been_handled_explains_why_its_rank_left(judge):
    handled = {"how": "exit", "error": "StopIteration", "line": "train.py:9 load"}
    assert judge(PEER, PEER, handled, TERM).line == "train.py:9 load"
    assert judge(*[handled] * RANKS) is None
    assert judge(TERM, TERM, handled, TERM).ranks == ()


def test_an_exception_of_a_background_thread_explains_no_other_end(judge):
    thread = {"error": "KeyError", "line": "log.py:9 send", "thread": "logger"}
    assert judge(*[CLEAN | thread] * RANKS) is None
    assert judge(TERM | thread, TERM, TERM, TERM).ranks == ()
    assert judge(PEER, PEER, KILL | thread, PEER).why == "killed (SIGKILL)"


def test_a_rank_that_ended_itself_is_named(judge):
    ended = {"how": "exit", "status": 3}
    assert judge(PEER, PEER, ended, TERM).ranks == (2,)
    assert judge(ended, ended, ended, ended).ranks == ()
    assert judge(TERM, CLEAN, ended, TERM).sure == "unsure", "it may have lost the rank that left"


def test_a_rank_that_is_gone_without_a_word_is_named_where_it_is_the_only_one(judge):
    assert judge(PEER, PEER, GONE, PEER).ranks == (2,)
    assert judge(PEER, GONE, GONE, PEER).ranks == ()
    assert judge(PEER, PEER, GONE | {"time_s": 99.9}, GONE | {"time_s": 101.0}).ranks == (2,), "ended by the launcher"
    late = {"time_s": 300.0}
    assert judge(PEER, PEER, GONE | late, GONE | late).ranks == ()
    assert judge(PEER, GONE, GONE | {"time_s": 300.0}, PEER, nodes=("gpu-1", "gpu-2")).ranks == (), "two clocks"
    assert judge(GONE, None, None, None) is None, "nothing says yet that others need it"


def test_one_process_alone(judge):
    assert judge(OWN, expected=1).ranks == (0,)
    assert judge(KILL, expected=1).ranks == (0,)
    assert judge(CTRL_C, expected=1).ranks == ()


def test_nothing_is_said_of_victims_while_others_still_run(judge):
    assert judge(PEER, PEER, None, None) is None
    assert judge(TERM, None, None, None) is None


class TestTimeLimit:
    """Slurm ends a job by SIGTERM and, half a minute later, SIGKILL."""

    @pytest.mark.parametrize("end", [KILL, TERM, {"how": "lost", "status": 137}, {"how": "exit", "status": 143}])
    def test_its_end_is_nobodys_fault(self, judge, end):
        found = judge(*[end | LATE] * RANKS)
        assert (found.ranks, found.sure) == ((), "certain")
        assert "the time limit of its job in Slurm has passed" in found.why

    def test_who_is_killed_because_sigterm_does_not_end_it_is_not_named(self, judge):
        """A rank of one node that is in the kernel; on the other all ended from SIGTERM."""
        late, killed = TERM | LATE, KILL | LATE | {"time_s": 130.0}
        assert judge(late, killed, late, killed, nodes=("gpu-1", "gpu-2")).ranks == ()
        assert judge(TERM, KILL, TERM, KILL, nodes=("gpu-1", "gpu-2")).ranks == (1, 3), "without a limit"

    def test_peers_that_are_lost_then_are_victims(self, judge):
        assert judge(KILL | LATE, PEER | LATE, PEER | LATE, PEER | LATE).ranks == ()

    @pytest.mark.parametrize("own", [OWN, {"how": "lost", "status": -11}, KILL | {"oom_kills": 1}])
    def test_a_failure_of_its_own_is_its_own_then_too(self, judge, own):
        """The limit passes, and nothing has been ended yet."""
        own = own | {"out_of_time": True, "time_s": 50.0}
        late = TERM | LATE
        assert judge(late, own, late, late).ranks == (1,)

    def test_before_all_have_ended_one_says_nothing_of_another_that_failed(self, judge):
        found = judge(KILL | LATE, PEER, None, None)
        assert found is None


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ([CTRL_C] * 4, "ended by Ctrl-C (SIGINT)"),
        ([CTRL_C, TERM, {"how": "lost", "status": -2}, GONE], "ended by Ctrl-C (SIGINT)"),
        ([TERM] * 4, "ended from outside (SIGTERM or the scheduler)"),
    ],
)
def test_who_pressed_ctrl_c_is_not_sent_to_the_scheduler(judge, ends, words):
    found = judge(*ends)
    assert found.ranks == ()
    assert found.why == f"{words}; no rank had failed before"
    assert ("scheduler's record" in found.next) == (ends == [TERM] * 4)


class TestAfterAHang:
    """Ranks that waited for another, confirmed, and then gave up."""

    @pytest.mark.parametrize("victim", [PEER, ABORTED, {"how": "lost", "status": 134}])
    def test_the_hang_is_why_they_ended(self, judge, victim):
        """By a timeout, or by NCCL's watchdog, which aborts; whichever came first."""
        found = judge(victim, victim, victim, victim, hang=HANG)
        assert (found.ranks, found.why, found.line, found.hung) == ((), HANG.words, "train.py:45", True)
        found = judge(ABORTED, PEER, TERM | {"status": 1, "error": "RuntimeError", "message": GLOO}, PEER, hang=HANG)
        assert (found.ranks, found.hung) == ((), True)

    def test_the_awaited_rank_aborted_by_itself_where_it_was_gone_long_before(self, judge):
        """Its own assertion; the watchdogs of the others follow minutes later."""
        late = ABORTED | {"time_s": 700.0}
        assert judge(late, late, ABORTED, late, hang=HANG).ranks == (2,)
        assert judge(late, late, late, late, hang=HANG).hung

    def test_nothing_is_said_while_some_still_wait(self, judge):
        assert judge(PEER, ABORTED, None, PEER, hang=HANG) is None

    @pytest.mark.parametrize("end", [OWN, KILL, {"how": "lost", "status": -11}, {"how": "exit", "status": 3}])
    def test_a_rank_that_failed_by_itself_is_named_all_the_same(self, judge, end):
        """For it the others waited."""
        found = judge(ABORTED, ABORTED, end, PEER, hang=HANG)
        assert (found.ranks, found.hung) == ((2,), False)

    @pytest.mark.parametrize("end", [CTRL_C, TERM])
    def test_who_is_tired_of_waiting_ends_it(self, judge, end):
        found = judge(end, end, end, end, hang=HANG)
        assert (found.ranks, found.hung) == ((), False)
