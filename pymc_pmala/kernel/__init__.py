"""Transitions in compiled code: geometry, proposal, acceptance, and the loop over them."""
