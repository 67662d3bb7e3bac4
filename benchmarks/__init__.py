"""Measurements: the samplers beside others, what a transition costs, and how cost grows.

`rows` and `samplers` say what is compared, `cell` what one process does, `reference` whether
its draws can be believed, `comparison` which processes are run, `report` what is shown of them.
`transition` measures single transitions; `data` and `models` serve all.
"""
