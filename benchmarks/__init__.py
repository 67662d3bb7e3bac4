"""Benchmarks: a comparison of samplers, the cost of a transition, and its growth with dimension.

`rows` and `samplers` (with `walnuts`) define what is compared, `cell` is one run in a process of
its own, `reference` checks whether its draws are correct, and `comparison` runs the processes.
`results` computes the figures, and `report` and `page` present them. `transition` measures single
transitions; `data` and `models` are used by all.
"""
