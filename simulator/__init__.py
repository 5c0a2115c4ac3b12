"""The simulator: jobs of any size and parallelism, their noise, and faults whose truth is known.

Rule of this package: pure. A spec and a seed go in, events come out, the same ones every time; files, brokers and
clocks are the command's business. It needs numpy, which ``paceline`` itself does not: import it only to simulate.
"""
