"""Control in place of the service: it answers what it is told to, and keeps what it was asked."""

from collections.abc import Callable, Mapping
from typing import Any

from paceline.control_client import ControlClient, ControlError


class Control(ControlClient):
    """Hands itself out as the client of every issuer."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.sessions: list[Mapping[str, Any]] = []
        self.asked: list[tuple[str, str, Mapping[str, Any] | None, str]] = []
        #: Why nothing is answered, or why changes are not.
        self.away = self.refusal = ""
        self._issuer = ""

    def client(self, issuer: str) -> "Control":
        self._issuer = issuer
        return self

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float = 0.0) -> Any:
        if self.away:
            raise ControlError(0, self.away)
        if path == "/v1/sessions" and method == "GET":
            return {"sessions": self.sessions}
        if path.endswith("/stat"):
            name = path.split("/")[-2]
            return {"session": name, "gpus": 4, "utilization_ratio": {"mean": 0.5 if name == "one" else 0.75}}
        self.asked.append((method, path, body, self._issuer))
        if self.refusal:
            raise ControlError(409, self.refusal)
        return {"command": f"command-{len(self.asked)}"} if path.startswith("/v1/suggestions") else {}


def eventually(until: Callable[..., Any], control: Control) -> tuple[str, str, Mapping[str, Any] | None, str]:
    """The newest change that was asked for, once one was."""
    until(lambda: control.asked)
    return control.asked[-1]
