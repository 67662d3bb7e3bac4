"""Six models from the examples of PyMC; compare samplers with ``python -m examples.gallery``."""
