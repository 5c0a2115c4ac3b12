"""Episodes: from a first suspicion to recovery, for every kind of finding.

Rule of this package: pure. Detectors say what they see; what becomes of it over time, its cause, its words and the
finding on the wire are decided here, once for all of them.
"""
