"""Measurements of the samplers: what a transition costs, and how cost grows with dimension."""
