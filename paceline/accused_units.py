"""The unit that a finding on several ranks accuses as a whole: a node, or the switch that some nodes hang from.

Rule of this file: pure; it reads what a finding says, for those who show it.
"""

from paceline.events import Finding


def unit_of(finding: Finding) -> str:
    """The node or switch whose ranks ``finding`` accuses together, in words; "" where it accuses ranks, or nobody."""
    if not finding.ranks or finding.kind not in ("straggler", "node_silent"):
        return ""
    if finding.kind == "straggler" and len(finding.ranks) == 1:
        return ""
    if len(finding.nodes) == 1:
        return f"node {finding.nodes[0]}"
    return finding.group or ""
