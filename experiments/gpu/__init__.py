"""The GPU suite: what is predicted of the probe on real hardware, case by case, and what is read there.

``make test-gpu PYTHON=python3`` runs it with that interpreter's PyTorch: no .venv, no download, no broker. Each file
of cases is one family, with its rows at the end; ``table`` joins them. docs/gpu.md says what each case proves.
"""
