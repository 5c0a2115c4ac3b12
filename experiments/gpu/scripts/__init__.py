"""Training scripts of the GPU suite, as a user would write them, except that each takes its own times beside.

Rule of this folder: a script does not know whether Paceline watches it. ``--device cpu`` runs it without a GPU.
"""
