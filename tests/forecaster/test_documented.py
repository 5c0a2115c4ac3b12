"""The requests of docs/forecasting.md are answered as it says."""

import re
import shlex
from pathlib import Path

import httpx
import pytest

PAGE = (Path(__file__).parents[2] / "docs/forecasting.md").read_text(encoding="utf-8")
#: The curl commands of the page, in their order, each on one line.
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("curl ")
]


def sent(client: httpx.Client, command: str) -> httpx.Response:
    """What a curl command sends."""
    words = iter(shlex.split(command.replace("$PACELINE_FORECASTER_TOKEN", "let-me-in"), comments=True)[1:])
    url, headers, body = "", {}, None
    for word in words:
        match word:
            case "-s":
                pass
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words)
            case _:
                url = word.removeprefix("127.0.0.1:8000")
    return client.request("GET" if body is None else "POST", url, headers=headers, content=body)


@pytest.mark.long
def test_requests_of_the_page_are_answered(client: httpx.Client) -> None:
    """Each of them, and what is written behind it is the answer."""
    assert len(COMMANDS) >= 3
    for command in COMMANDS:
        answer = sent(client, command)
        assert answer.status_code == 200, (command, answer.text)
        _, _, written = command.partition("   # ")
        assert written in ("", answer.text)


@pytest.mark.long
def test_every_field_of_a_posted_series_is_documented(client: httpx.Client) -> None:
    """By its name, in the table of the page."""
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for field in schemas["Append"]["properties"]:
        assert re.search(rf"^\|[^|]*`{field}`", PAGE.partition("Values of your own are posted")[2], re.M), field
