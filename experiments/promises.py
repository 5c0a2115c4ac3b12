"""What a run against a real program must hold, told line by line while it goes on."""

from paceline.terminal import say


class Promises:
    """What held, and what did not."""

    def __init__(self) -> None:
        self.broken: list[str] = []

    def require(self, holds: object, words: str) -> None:
        """One promise."""
        say(("held:   " if holds else "BROKEN: ") + words)
        if not holds:
            self.broken.append(words)

    def status(self) -> int:
        """Tell the sum; 0 where every promise held."""
        say("all held" if not self.broken else f"{len(self.broken)} did not hold")
        return 1 if self.broken else 0
