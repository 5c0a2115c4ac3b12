"""A page opened by a link in Streamlit's AppTest, and what it wrote."""

from collections.abc import Callable, Mapping
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.patience import PATIENCE_S


def opened(script: Callable[..., None], args: tuple[Any, ...], query: Mapping[str, str] | None = None) -> AppTest:
    """``script`` run once with ``args`` under the link's ``query``; no exception is on the page."""
    app = AppTest.from_function(script, args=args, default_timeout=PATIENCE_S)
    for name, value in (query or {}).items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def text_of(app: AppTest) -> str:
    """Everything that it wrote as HTML."""
    return " ".join(element.proto.body for element in app.get("html"))
