"""What the nodes of a cluster were measured to do, and which of them lies under its rating."""
