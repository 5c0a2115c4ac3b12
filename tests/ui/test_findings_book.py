from ui import findings_book
from ui.findings_book import EPISODES, REVISIONS, FindingsBook


def test_open_findings_come_first(simulated_job):
    """Confirmed, then suspected, then recovered, whatever the order they came in."""
    book = FindingsBook()
    for state in ("recovered", "suspected", "confirmed"):
        book.upsert(simulated_job.finding(1, 99, state, id=state)[1], 0.0)
    assert [episode[-1].state for episode in book.episodes()] == ["confirmed", "suspected", "recovered"]


def test_revisions_are_in_order_however_they_come(simulated_job):
    """A late older revision never hides the newest."""
    book = FindingsBook()
    for revision in (3, 1, 2):
        book.upsert(simulated_job.finding(revision, 99, "confirmed")[1], 0.0)
    assert [finding.revision for finding in book.episodes()[0]] == [1, 2, 3]


def test_a_long_episode_keeps_its_first_and_its_newest_revisions(simulated_job):
    """Revisions are bounded."""
    book = FindingsBook()
    for revision in range(1, 500):
        book.upsert(simulated_job.finding(revision, 99, "confirmed")[1], 0.0)
    kept = [finding.revision for finding in book.episodes()[0]]
    assert (len(kept), kept[0], kept[-1]) == (REVISIONS, 1, 499)


def test_the_oldest_recovered_episode_is_forgotten_first(simulated_job):
    """Episodes are bounded; what is open stays."""
    book = FindingsBook()
    book.upsert(simulated_job.finding(1, 1, "confirmed", id="open", first_step=0)[1], 0.0)
    for step in range(EPISODES + 5):
        book.upsert(simulated_job.finding(1, step, "recovered", id=f"e{step}", first_step=step)[1], 0.0)
    ids = {episode[-1].id for episode in book.episodes()}
    assert "open" in ids
    assert "e0" not in ids
    assert len(ids) == EPISODES


def test_findings_of_any_length_are_bounded_in_bytes(simulated_job, monkeypatch):
    """The newest stay; one that is larger than all there is leaves nothing behind."""
    monkeypatch.setattr(findings_book, "FINDING_BYTES", 2**20)
    book = FindingsBook()
    for at in range(30):
        book.upsert(simulated_job.finding(at, 99, "confirmed", id=f"e{at % 3}", summary="x" * 100_000)[1], 0.0)
    newest = sorted(finding.revision for finding in book.latest())
    assert newest == [27, 28, 29]
    assert 8 * 100_000 < book.bytes <= 2**20
    book.upsert(simulated_job.finding(1, 99, "confirmed", id="large", summary="x" * 2**21)[1], 0.0)
    assert (book.episodes(), book.bytes) == ([], 0)
