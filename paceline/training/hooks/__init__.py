"""Hooks into PyTorch: each file taps one part of it.

Rule of this folder: a hook changes no argument, no result and no exception, and stays invisible to torch.compile: its
own frame is never compiled (``skip_frame``), and where dynamo inlines it, ``is_dynamo_compiling()`` makes it nothing.
"""
