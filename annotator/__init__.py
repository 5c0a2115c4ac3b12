"""Writes what the bus knows onto nodes, pods and their owners in Kubernetes. See docs/annotations.md."""
