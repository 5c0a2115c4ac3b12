"""Colours, icon and Streamlit's options: a dark and a light palette, scales that colour-blind readers can tell apart.

Rule of this file: data, and looking up what another version of Paceline may not know. HTML takes the colours as CSS
variables, so that one text serves both palettes; pictures take a ``Palette``, for plotly knows no variables.
"""

from dataclasses import dataclass, fields
from typing import Literal

#: A colour scale: (place from 0 to 1, colour).
Scale = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Palette:
    """The colours of one appearance of the page."""

    kind: Literal["dark", "light"]
    ink: str
    muted: str
    faint: str
    ground: str
    panel: str
    line: str
    accent: str
    slow: str
    fast: str
    caution: str
    good: str
    #: Own time against the median rank's: what is normal recedes into the panel, slow is red, fast is blue (RdBu).
    ratio_scale: Scale
    #: Time spent waiting for others is nobody's work: it recedes, too.
    waiting: str

    def state(self, state: str) -> str:
        """The colour of a finding's state; of one that this version does not know, that of a suspicion."""
        return {"confirmed": self.slow, "recovered": self.good}.get(state, self.caution)


DARK = Palette(
    kind="dark",
    ink="#e6ebf2",
    muted="#93a1b5",
    faint="#5b6b80",
    ground="#0d131b",
    panel="#141c27",
    line="#243040",
    accent="#5ab0f6",
    slow="#ff7a66",
    fast="#5ab0f6",
    caution="#f2b950",
    good="#5fcf9f",
    ratio_scale=(
        (0.0, "#7cc4ff"),
        (0.2, "#3d8bd0"),
        (0.4, "#20466c"),
        (0.5, "#1a2533"),
        (0.6, "#64292b"),
        (0.8, "#c4402f"),
        (1.0, "#ff7d5e"),
    ),
    waiting="#4a5667",
)
LIGHT = Palette(
    kind="light",
    ink="#17202b",
    muted="#55637a",
    faint="#8a97a8",
    ground="#ffffff",
    panel="#f4f6f9",
    line="#d9e0e8",
    accent="#1668b8",
    slow="#c2301c",
    fast="#1668b8",
    caution="#8f5f00",
    good="#0f7a56",
    ratio_scale=(
        (0.0, "#0b4a8f"),
        (0.2, "#3d8bd0"),
        (0.4, "#b9d7ee"),
        (0.5, "#f4f6f9"),
        (0.6, "#f3c4b4"),
        (0.8, "#d9583c"),
        (1.0, "#9c1c12"),
    ),
    waiting="#c5ccd6",
)
#: Amounts from little to much, for those who tell no red from green (Nunez, Anderton and Renslow, 2018).
AMOUNT_SCALE = "Cividis"

#: The palette's colours in HTML.
INK, MUTED, FAINT = "var(--pl-ink)", "var(--pl-muted)", "var(--pl-faint)"
GROUND, PANEL, LINE = "var(--pl-ground)", "var(--pl-panel)", "var(--pl-line)"
SLOW, FAST, CAUTION, GOOD = "var(--pl-slow)", "var(--pl-fast)", "var(--pl-caution)", "var(--pl-good)"

#: Phases in the order of a step, from Okabe and Ito's palette; waiting for others comes last, in the palette's grey.
PHASE_COLOURS = {
    "data": "#e69f00",
    "prepare": "#f0e442",
    "forward": "#56b4e9",
    "backward": "#2a7fc4",
    "optimizer": "#009e73",
    "evaluation": "#cc79a7",
    "checkpoint": "#d55e00",
    "other": "#b9a9d9",
    "idle": "#c9b98a",
}

#: The page's own icon: four ranks' steps, one of them longer. Streamlit fetches its named icons from other hosts.
ICON = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="{DARK.panel}"/>
<g stroke-width="4" stroke-linecap="round">
<path d="M7 7h9M7 13h9M7 25h9" stroke="{DARK.fast}"/>
<path d="M7 19h18" stroke="{DARK.slow}"/>
</g></svg>"""


def _streamlit(palette: Palette) -> dict[str, str]:
    """The palette by Streamlit's names; it follows the browser's wish where both are told and no base is."""
    return {
        "primaryColor": palette.accent,
        "backgroundColor": palette.ground,
        "secondaryBackgroundColor": palette.panel,
        "textColor": palette.ink,
        "borderColor": palette.line,
        "linkColor": palette.accent,
    }


OPTIONS: dict[str, object] = {
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "type",
    "logger.hideWelcomeMessage": True,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.runOnSave": False,
    **{f"theme.{one.kind}.{name}": value for one in (DARK, LIGHT) for name, value in _streamlit(one).items()},
    "theme.baseRadius": "0.5rem",
}

STYLE = f"""<style>
.stMainBlockContainer {{ padding: 4.1rem 2rem 3rem; max-width: 1720px; }}
@media (max-width: 640px) {{ .stMainBlockContainer {{ padding: 4.1rem 0.9rem 2rem; }} }}
.stElementContainer, .stVerticalBlock {{ opacity: 1 !important; transition: none !important; }}
.pl h1 {{ font-size: 1.5rem; font-weight: 650; margin: 0; padding: 0; letter-spacing: -0.01em; }}
.pl h2 {{ font-size: 1.02rem; font-weight: 600; margin: 0.9rem 0 0; padding: 0; }}
.pl p {{ margin: 0.15rem 0 0; }}
.pl .muted, .pl p.muted {{ color: {MUTED}; font-size: 0.83rem; }}
.pl code {{ background: {GROUND}; border: 1px solid {LINE}; border-radius: 4px; padding: 0.1rem 0.4rem;
  color: {INK}; font-size: 0.86rem; }}
.pl-dot {{ display: inline-block; width: 0.55rem; height: 0.55rem; border-radius: 50%; margin-right: 0.4rem; }}
.pl-tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(168px, 1fr));
  gap: 0.7rem; margin-top: 0.2rem; }}
.pl-tile {{ background: {PANEL}; border: 1px solid {LINE}; border-radius: 0.6rem; padding: 0.7rem 0.95rem; }}
.pl-tile .label {{ color: {MUTED}; font-size: 0.78rem; }}
.pl-tile .value {{ font-size: 1.6rem; font-weight: 640; line-height: 1.25; font-variant-numeric: tabular-nums; }}
.pl-tile .value small {{ font-size: 0.9rem; font-weight: 500; color: {MUTED}; margin-left: 0.15rem; }}
.pl-tile .note {{ color: {MUTED}; font-size: 0.78rem; }}
.pl-tile.slow {{ border-color: {SLOW}; }} .pl-tile.slow .value {{ color: {SLOW}; }}
.pl-badge {{ display: inline-block; border-radius: 99px; padding: 0.05rem 0.6rem; font-size: 0.76rem; font-weight: 600;
  border: 1px solid currentColor; margin-right: 0.45rem; }}
.pl-head {{ font-size: 1.06rem; font-weight: 620; margin-top: 0.35rem; }}
.pl-table {{ overflow-x: auto; }}
.pl-table table {{ border-collapse: collapse; width: 100%; font-size: 0.83rem; font-variant-numeric: tabular-nums; }}
.pl-table th {{ color: {MUTED}; font-weight: 500; text-align: left; padding: 0.3rem 0.7rem 0.3rem 0;
  border-bottom: 1px solid {LINE}; white-space: nowrap; }}
.pl-table td {{ padding: 0.3rem 0.7rem 0.3rem 0; border-bottom: 1px solid {LINE}; vertical-align: top; }}
.pl-table tr:last-child td {{ border-bottom: 0; }}
.pl-table td.n, .pl-table th.n {{ text-align: right; white-space: nowrap; }}
.pl a {{ color: var(--pl-accent); text-decoration: none; }}
.pl-table td a {{ white-space: nowrap; }}
.st-key-jobs td a, .st-key-worst td a {{ white-space: normal; overflow-wrap: anywhere; }}
.pl-table td.r {{ text-align: right; }}
.pl a:hover {{ text-decoration: underline; }}
.pl-table td.w, .st-key-worst td.w a {{ white-space: nowrap; }}
.pl-table td.own {{ color: {SLOW}; font-weight: 600; }}
.pl-notice {{ background: {PANEL}; border: 1px solid {LINE}; border-left: 4px solid {CAUTION}; border-radius: 0.5rem;
  padding: 0.8rem 1.1rem; }}
.pl-notice.lost {{ border-left-color: {SLOW}; }} .pl-notice.good {{ border-left-color: {GOOD}; }}
.pl-notice .do {{ margin-top: 0.45rem; }}
.pl-notice .do div {{ margin: 0.3rem 0; display: flex; gap: 0.8rem; flex-wrap: wrap; align-items: baseline; }}
</style>"""


def style(palette: Palette) -> str:
    """The page's style sheet with the colours of ``palette``."""
    named = "".join(f"--pl-{one.name}: {getattr(palette, one.name)};" for one in fields(palette) if one.type is str)
    return f"<style>:root {{ {named} }}</style>{STYLE}"


def palette(kind: str | None) -> Palette:
    """The palette of an appearance by its name; the dark one where the browser has told none yet."""
    return LIGHT if kind == "light" else DARK


def phase_colours(palette: Palette) -> dict[str, str]:
    """The colour of each phase in the order of a step, waiting for others last."""
    return {**PHASE_COLOURS, "communication": palette.waiting}


def state_colour(state: str) -> str:
    """The colour of a finding's state in HTML."""
    return {"confirmed": SLOW, "recovered": GOOD}.get(state, CAUTION)
