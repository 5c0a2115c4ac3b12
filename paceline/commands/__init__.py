"""The commands of ``paceline`` that belong to no service: one module a command, each with ``main(argv) -> int``."""
