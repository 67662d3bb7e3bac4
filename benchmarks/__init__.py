"""Benchmarks: a comparison of samplers, the cost of a transition, and its growth with dimension.

`rows` and `samplers` define what is compared, `cell` is one run in a process of its own,
`reference` checks whether its draws are correct, `comparison` runs the processes, and `report`
presents the results. `transition` measures single transitions; `data` and `models` are used by all.
"""
