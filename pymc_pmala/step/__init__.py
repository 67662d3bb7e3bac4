"""Langevin samplers as PyMC step methods."""
