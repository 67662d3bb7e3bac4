"""Rewrites of graphs that pytensor lacks."""
