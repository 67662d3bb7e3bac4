"""Errors of posterior means with control variates; run with ``python -m examples.estimates``."""
