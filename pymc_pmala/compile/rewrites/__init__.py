"""Graph rewrites that pytensor lacks."""
