"""Unchanged scripts of training frameworks under the installed wheel, and the table of docs/frameworks.md."""
