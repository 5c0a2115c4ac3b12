"""A journal outlives a crash in the middle of a line, and lets nobody go on with another trial."""

import pytest

from trials.journal import NAME, Journal, JournalError
from trials.result import Told


def told(repeat=0):
    return Told(rung=0, repeat=repeat, placement=1, attempt=0, outcome="measured", blocks_s=[0.1] * 6, samples=8.0)


def written(folder, count=2):
    journal = Journal(folder, "t", "f")
    for repeat in range(count):
        journal.add(told(repeat))
    journal.close()
    return folder / NAME


def test_what_was_told_is_there_again(tmp_path):
    """In its order, with all that it holds."""
    written(tmp_path / "new" / "folder")
    journal = Journal(tmp_path / "new" / "folder", "t", "f")

    assert journal.runs == [told(0), told(1)]
    journal.close()


def test_a_torn_last_line_is_cut_off(tmp_path):
    """Wherever: the whole lines are kept, and the next one is added after these."""
    path = written(tmp_path)
    whole = path.read_bytes()
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for cut in {*range(0, len(whole), 9), second - 1, second, len(whole) - 1}:
        path.write_bytes(whole[:cut])
        journal = Journal(tmp_path, "t", "f")
        assert journal.runs == ([told(0)] if cut >= second else [])
        journal.add(told(7))
        journal.close()
        again = Journal(tmp_path, "t", "f")
        assert again.runs[-1] == told(7)
        again.close()


@pytest.mark.parametrize(
    "content",
    [
        b"no journal\n",
        b'{"layout":1}\n',
        b"\0\0\0\0\n",
        b'{"layout":1,"trial":"t","fingerprint":"f"}\n{"rung":-1}\n',
        b'{"layout":1,"trial":"t","fingerprint":"f"}\nnull\n',
        b"\xff\xfe\n",
    ],
)
def test_damaged_lines_are_refused_with_the_mend(tmp_path, content):
    """Nothing is overwritten."""
    (tmp_path / NAME).write_bytes(content)

    with pytest.raises(JournalError, match=r"damaged.*--fresh"):
        Journal(tmp_path, "t", "f")
    assert (tmp_path / NAME).read_bytes() == content


@pytest.mark.parametrize(("trial", "fingerprint"), [("t", "g"), ("u", "f")])
def test_another_trial_is_refused(tmp_path, trial, fingerprint):
    """By its spec, command, placements or name; --fresh throws it away."""
    written(tmp_path)

    with pytest.raises(JournalError, match="another spec, command or machine; --fresh"):
        Journal(tmp_path, trial, fingerprint)
    journal = Journal(tmp_path, trial, fingerprint, fresh=True)
    assert journal.runs == []
    journal.close()


def test_fresh_leaves_no_answer_of_an_old_job(tmp_path):
    """The jobs' folders go; what else lies there stays."""
    written(tmp_path)
    for name in ("r0-n0-p1-t0", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result-0.json").write_text("{}")
    Journal(tmp_path, "t", "f", fresh=True).close()

    assert not (tmp_path / "r0-n0-p1-t0").exists()
    assert (tmp_path / "mine" / "result-0.json").exists()


def test_two_at_a_time_are_refused(tmp_path):
    """The second one, also with --fresh; once the first is over it may."""
    journal = Journal(tmp_path, "t", "f")

    for fresh in (False, True):
        with pytest.raises(JournalError, match="another trial runs in it"):
            Journal(tmp_path, "t", "f", fresh=fresh)
    journal.close()
    Journal(tmp_path, "t", "f").close()


def test_a_folder_that_cannot_be_is_said(tmp_path):
    """A file stands in its place."""
    (tmp_path / "file").write_text("")

    with pytest.raises(JournalError, match="choose another --folder"):
        Journal(tmp_path / "file", "t", "f")


def test_a_full_disk_is_said(tmp_path):
    """What was written before stays good."""
    journal = Journal(tmp_path, "t", "f")
    journal.add(told())
    journal._file.close()
    with open("/dev/full", "wb", buffering=0) as full:
        journal._file = full
        with pytest.raises(JournalError, match="No space left"):
            journal.add(told(1))
        journal.close()

    again = Journal(tmp_path, "t", "f")
    assert again.runs == [told()]
    again.close()
