"""Colours, icon and Streamlit's options: one dark theme, scales that colour-blind readers can tell apart.

Rule of this file: data, and looking up what another version of Paceline may not know.
"""

INK, MUTED, FAINT = "#e6ebf2", "#93a1b5", "#5b6b80"
GROUND, PANEL, LINE = "#0d131b", "#141c27", "#243040"
ACCENT, SLOW, FAST, CAUTION, GOOD = "#5ab0f6", "#ff7a66", "#5ab0f6", "#f2b950", "#5fcf9f"

#: RdBu with its middle darkened to the panel's ground: what is normal recedes, slow is red, fast is blue.
RATIO_SCALE = (
    (0.0, "#7cc4ff"),
    (0.2, "#3d8bd0"),
    (0.4, "#20466c"),
    (0.5, "#1a2533"),
    (0.6, "#64292b"),
    (0.8, "#c4402f"),
    (1.0, "#ff7d5e"),
)

#: Phases in the order of a step. Waiting is grey: it is nobody's work. The rest is Okabe and Ito's palette.
PHASE_COLOURS = {
    "data": "#e69f00",
    "prepare": "#f0e442",
    "forward": "#56b4e9",
    "backward": "#2a7fc4",
    "optimizer": "#009e73",
    "evaluation": "#cc79a7",
    "checkpoint": "#d55e00",
    "other": "#b9a9d9",
    "idle": "#f3e9d2",
    "communication": "#4a5667",
}

_STATE_COLOURS = {"confirmed": SLOW, "suspected": CAUTION, "recovered": GOOD}

#: The page's own icon: four ranks' steps, one of them longer. Streamlit fetches its named icons from other hosts.
ICON = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="{PANEL}"/>
<g stroke-width="4" stroke-linecap="round">
<path d="M7 7h9M7 13h9M7 25h9" stroke="{FAST}"/>
<path d="M7 19h18" stroke="{SLOW}"/>
</g></svg>"""

OPTIONS: dict[str, object] = {
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "type",
    "logger.hideWelcomeMessage": True,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.runOnSave": False,
    "theme.base": "dark",
    "theme.primaryColor": ACCENT,
    "theme.backgroundColor": GROUND,
    "theme.secondaryBackgroundColor": PANEL,
    "theme.textColor": INK,
    "theme.borderColor": LINE,
    "theme.baseRadius": "0.5rem",
}

STYLE = f"""<style>
.stMainBlockContainer {{ padding: 1.2rem 2rem 3rem; max-width: 1720px; }}
header[data-testid="stHeader"] {{ background: transparent; height: 0; }}
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
.pl-table td.own {{ color: {SLOW}; font-weight: 600; }}
.pl-notice {{ background: {PANEL}; border: 1px solid {LINE}; border-left: 4px solid {CAUTION}; border-radius: 0.5rem;
  padding: 0.8rem 1.1rem; }}
.pl-notice.lost {{ border-left-color: {SLOW}; }} .pl-notice.good {{ border-left-color: {GOOD}; }}
.pl-notice .do {{ margin-top: 0.45rem; }}
.pl-notice .do div {{ margin: 0.3rem 0; display: flex; gap: 0.8rem; flex-wrap: wrap; align-items: baseline; }}
</style>"""


def state_colour(state: str) -> str:
    """The colour of a finding's state; of one that this version does not know, that of a suspicion."""
    return _STATE_COLOURS.get(state, CAUTION)
