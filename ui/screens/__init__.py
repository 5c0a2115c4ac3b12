"""Screens: each draws one snapshot with Streamlit and decides nothing."""
