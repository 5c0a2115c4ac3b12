"""Documents: reports in words, tables and pictures, and those as text, Markdown and HTML.

Rule of this package: pure. Numbers come from the reports beside it; here they get words, once for all formats.
"""
