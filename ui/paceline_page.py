"""The script that Streamlit runs.

Rule of this file: Streamlit puts this folder first on sys.path, so no module of it may be named like a library; it runs
this file as ``__main__``, which has no package: so it imports by name, and all else is in ``live_page``.
"""

from importlib import import_module

from paceline import service_modules

import_module(service_modules.module("ui.live_page")).draw()
