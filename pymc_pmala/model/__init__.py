"""The model as a sampler sees it."""
