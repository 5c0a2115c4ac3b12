"""The aims of the benchmark, and whether figures meet them.

Rule of this file: pure. What was not measured is no aim missed, and no aim met either.
"""

from typing import Any, NamedTuple

from experiments.detection.judged import PACELINE

#: Faults that count: so large a share of the rank's own work, which cost the job so large a share of its time.
LEAST_SIZE, LEAST_COST = 0.1, 0.02
#: Least share of them that is found, and of what is found that has the right cause.
LEAST_RECALL = LEAST_CAUSE = 0.98
#: The key of these faults among a part's figures.
THOSE = "those_that_count"


class Aim(NamedTuple):
    """What was to be reached, what was, and whether that is enough."""

    words: str
    reached: str
    met: bool

    def line(self) -> str:
        """One line of text.

        >>> Aim("simulated: recall 0.98", "0.971 of 170", met=False).line()
        'aim missed: simulated: recall 0.98: 0.971 of 170'
        """
        return f"aim {'met' if self.met else 'missed'}: {self.words}: {self.reached}"


def aims(parts: dict[str, dict[str, Any]]) -> list[Aim]:
    """The aims that the figures of ``parts`` say something of."""
    found = []
    for part, figures in parts.items():
        own = figures[PACELINE]
        those = figures.get(THOSE) or {"faults": 0}
        if those["faults"]:
            which = f"{part}: {{}} at least {{}} of faults of {LEAST_SIZE:.0%} that cost {LEAST_COST:.0%}"
            recall, cause = those["recall"], own["cause"]
            found.append(
                Aim(which.format("recall", LEAST_RECALL), f"{recall:.3f} of {those['faults']}", recall >= LEAST_RECALL)
            )
            if cause is not None:
                words = f"{part}: right cause of at least {LEAST_CAUSE} of what was found"
                found.append(Aim(words, f"{cause:.3f}", cause >= LEAST_CAUSE))
        wrong = own["false_accusations"] + own["false_remarks"]
        ran = f"{wrong} in {own['jobs']} jobs, {own['healthy_hours']:.0f} healthy hours"
        found.append(Aim(f"{part}: nobody accused and nothing remarked wrongly", ran, wrong == 0))
    return found
