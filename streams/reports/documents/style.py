"""Colours and the style sheet: dark and light by the reader's wish, paper in light.

Rule of this file: data. Pictures and HTML name colours as CSS variables; ``painted`` puts the light ones in their place
for what prints and knows no variables. The colours are those of the page: states, phases, and a scale of ratios around
a normal middle that readers who tell no red from green can read.
"""

import re

LIGHT = {
    "ink": "#17202b",
    "muted": "#55637a",
    "faint": "#8a97a8",
    "ground": "#ffffff",
    "panel": "#f4f6f9",
    "line": "#d9e0e8",
    "accent": "#1668b8",
    "slow": "#c2301c",
    "fast": "#1668b8",
    "caution": "#8f5f00",
    "good": "#0f7a56",
    "waiting": "#c5ccd6",
}
DARK = {
    "ink": "#e6ebf2",
    "muted": "#93a1b5",
    "faint": "#5b6b80",
    "ground": "#0d131b",
    "panel": "#141c27",
    "line": "#243040",
    "accent": "#5ab0f6",
    "slow": "#ff7a66",
    "fast": "#5ab0f6",
    "caution": "#f2b950",
    "good": "#5fcf9f",
    "waiting": "#4a5667",
}
#: Phases in the order of a step, from Okabe and Ito's palette; waiting for others comes last and recedes.
PHASES = {
    "data": "#e69f00",
    "prepare": "#f0e442",
    "forward": "#56b4e9",
    "backward": "#2a7fc4",
    "optimizer": "#009e73",
    "evaluation": "#cc79a7",
    "checkpoint": "#d55e00",
    "other": "#b9a9d9",
    "idle": "#c9b98a",
    "communication": "var(--waiting)",
}
#: Slower and faster than normal, laid over any ground by how much: red, blue.
SLOWER, FASTER = (217, 72, 44), (45, 125, 210)
#: A finding's states; one that this version does not know is one to look at, as a suspicion is.
STATES = {"confirmed": "var(--slow)", "recovered": "var(--good)"}
SUSPECTED = "var(--caution)"


def painted(text: str) -> str:
    """``text`` with the light colours in place of variables.

    >>> painted("fill:var(--slow)")
    'fill:#c2301c'
    """
    return re.sub(r"var\(--([a-z]+)\)", lambda name: LIGHT.get(name.group(1), "#000000"), text)


def _variables(palette: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in palette.items())


STYLE = f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
*{{box-sizing:border-box}}
html{{font-size:15px}}
body{{margin:0;background:var(--ground);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}}
main{{max-width:1080px;margin:0 auto;padding:36px 28px 64px}}
h1{{font-size:1.65rem;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}}
h2{{font-size:1.15rem;margin:2.3rem 0 .7rem;padding-bottom:.3rem;border-bottom:1px solid var(--line);
overflow-wrap:anywhere}}
h3{{font-size:1rem;margin:1.6rem 0 .4rem;overflow-wrap:anywhere}}
p{{margin:.5rem 0;overflow-wrap:anywhere;max-width:82ch}}
.quiet,.subtitle{{color:var(--muted);font-size:.87rem}}
.subtitle{{font-size:.95rem;margin-top:.35rem}}
.tiles{{display:flex;flex-wrap:wrap;gap:10px;margin:1.1rem 0}}
.tile{{flex:1 1 150px;background:var(--panel);border:1px solid var(--line);border-radius:9px;padding:10px 14px}}
.tile .label,.tile .note{{color:var(--muted);font-size:.78rem;overflow-wrap:anywhere}}
.tile .value{{font-size:1.45rem;font-weight:700;line-height:1.3;font-variant-numeric:tabular-nums}}
.tile.slow .value{{color:var(--slow)}}.tile.caution .value{{color:var(--caution)}}.tile.good .value{{color:var(--good)}}
.notice{{background:var(--panel);border:1px solid var(--line);border-left:4px solid var(--accent);border-radius:7px;
padding:11px 16px;margin:.9rem 0;overflow-wrap:anywhere}}
.notice.slow{{border-left-color:var(--slow)}}.notice.caution{{border-left-color:var(--caution)}}
.notice.good{{border-left-color:var(--good)}}
.notice p{{margin:.2rem 0 0}}
pre{{background:var(--ground);border:1px solid var(--line);border-radius:6px;padding:8px 12px;margin:.6rem 0 .1rem;
font:.82rem/1.45 ui-monospace,"DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere}}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums;margin:.4rem 0}}
th{{color:var(--muted);font-weight:500;text-align:left;white-space:nowrap}}
th,td{{padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}}
td{{max-width:46ch}}
.n{{text-align:right;white-space:nowrap}}.w{{white-space:nowrap}}
tr.out td:first-child{{color:var(--slow);font-weight:600}}
ul{{margin:.4rem 0;padding-left:1.2rem}}li{{margin:.25rem 0;overflow-wrap:anywhere;max-width:86ch}}
figure{{margin:.9rem 0 1.1rem}}
figure svg{{display:block;width:100%;height:auto}}
figcaption{{color:var(--muted);font-size:.82rem;margin-top:.35rem;max-width:96ch}}
svg text{{font-family:system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}}
footer{{color:var(--faint);font-size:.8rem;margin-top:2.6rem;border-top:1px solid var(--line);padding-top:.7rem}}
@page{{size:A4;margin:15mm 14mm 16mm;
@bottom-right{{content:counter(page) " / " counter(pages);
font:8pt system-ui,"Noto Sans","DejaVu Sans",sans-serif;color:#55637a}}}}
@media print{{
html{{font-size:9.5pt}}main{{max-width:none;padding:0}}
h2,h3{{break-after:avoid}}figure,.notice,.tile,tr,ul{{break-inside:avoid}}li{{margin:.1rem 0}}
table{{font-size:8pt}}th,td{{padding:3pt 7pt 3pt 0}}th{{white-space:normal}}
.scroll{{overflow:visible}}.tile .value{{font-size:13pt}}.tile{{flex:1 1 26%;padding:6pt 9pt}}pre{{font-size:7.5pt}}
}}
"""
