"""Centred hierarchies by NUTS and by PMALA; run with ``python -m examples.hierarchies``."""
