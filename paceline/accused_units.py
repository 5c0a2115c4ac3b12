"""The unit that a finding on several ranks accuses as a whole: a node, a switch that nodes hang from, a tensor group.

Rule of this file: pure; it reads what a finding says, for those who show it.
"""

from paceline.events import Finding

NODE, SWITCH, TENSOR_GROUP = "node", "switch", "tensor group"
#: How a finding's ``group`` begins where it is such a unit; a node's stands in ``nodes``.
_IN_GROUP = (f"{SWITCH} ", f"{TENSOR_GROUP} ")


def unit_of(finding: Finding) -> str:
    """The unit whose ranks ``finding`` accuses together, in words; "" where it accuses ranks, or nobody."""
    if not finding.ranks or finding.kind not in ("straggler", "node_silent"):
        return ""
    if finding.kind == "straggler" and len(finding.ranks) == 1:
        return ""
    if finding.group and finding.group.startswith(_IN_GROUP):
        return finding.group
    return f"{NODE} {finding.nodes[0]}" if len(finding.nodes) == 1 else ""
