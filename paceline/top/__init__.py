"""``paceline top``: jobs, ranks, findings and suggestions in a terminal.

Rule of this package: it reads derived topics alone. What is known (``model``) and what of it is shown (``picture``,
``plain``) is pure; ``reader`` is the door to the bus, and ``screen`` to the terminal, which alone, with its ``pane``,
imports Textual.
"""
