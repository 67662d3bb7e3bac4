"""Compiled transitions: geometry, proposal, acceptance, and the loop over them."""
