"""Where a device's time went, as ``paceline import kineto`` counts it, beside HolisticTraceAnalysis."""
