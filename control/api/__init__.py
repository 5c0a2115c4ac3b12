"""The HTTP interface: what may be asked and changed, how it is refused, and where each request goes.

Rule of this folder: doors. A route reads, asks ``changes`` or the book, and answers. Every client that reaches the
service may read; every change wants the token.
"""
