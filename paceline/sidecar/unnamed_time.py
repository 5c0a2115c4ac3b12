"""Time outside every span, and fetches and waits at the top level, until what comes next says which phase they were.

Rule of this file: pure; times are integer nanoseconds. Before a forward pass it is ``prepare``, before a backward pass
that no forward announced ``forward``, between evaluations ``evaluation``, else ``other``. Fetching data counts as
``data`` unless an evaluation follows. What comes next may never come: this is kept in bounded room.
"""

from collections.abc import Iterator

from paceline.training.marks import BACKWARD, COMMUNICATION, DATA, EVALUATION, FORWARD, GAP, OPTIMIZER, OTHER, PREPARE

#: Stretches that wait for their names; beyond, those of one kind are taken together.
MOST = 10_000


class UnnamedTime:
    """Stretches of a step, oldest first, each with what is known of it: a fetch, a wait, or a gap."""

    def __init__(self) -> None:
        self._stretches: list[tuple[int, int]] = []
        #: The phase that ended last, which is not named by what follows.
        self.after = GAP

    def __len__(self) -> int:
        return len(self._stretches)

    def append(self, duration: int, label: int) -> None:
        """Another stretch."""
        self._stretches.append((duration, label))
        if len(self._stretches) > MOST:
            folded = dict.fromkeys((name for _, name in self._stretches), 0)
            for took, name in self._stretches:
                folded[name] += took
            self._stretches = [(took, name) for name, took in folded.items()]

    def clear(self) -> None:
        """All of it is nobody's."""
        self._stretches, self.after = [], GAP

    def named_by(self, op: int, *, announced: bool, compiled: bool) -> Iterator[tuple[int, int]]:
        """The phase and duration of each stretch, now that ``op`` begins, or a step ends (``OTHER``).

        ``announced``: a forward pass has been seen for this backward. ``compiled``: an optimizer that is not heard of
        has stepped in the last gap.
        """
        stretches, self._stretches = self._stretches, []
        fetches = [index for index, (_, label) in enumerate(stretches) if label == DATA]
        last = fetches[-1] + 1 if fetches else 0
        evaluating = 0 if self.after == EVALUATION else fetches[0] if fetches else len(stretches)
        for index, (duration, label) in enumerate(stretches):
            if op == EVALUATION and index >= evaluating and label != COMMUNICATION:
                label = EVALUATION
            elif label == GAP:
                label = _gap_before(op, announced, compiled) if index >= last else OTHER
            yield label, duration


def _gap_before(op: int, announced: bool, compiled: bool) -> int:
    if op == FORWARD:
        return PREPARE
    if op == OPTIMIZER and compiled:
        return OPTIMIZER
    return FORWARD if op == BACKWARD and not announced else OTHER
