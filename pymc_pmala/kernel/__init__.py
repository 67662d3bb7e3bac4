"""One transition, or many, in one compiled call."""
