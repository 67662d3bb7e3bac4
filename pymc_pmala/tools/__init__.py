"""Tools for users: comparison of samplers, the metric of a model, and plots."""
