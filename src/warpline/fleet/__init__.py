"""Many ranks of one job: each is reduced to a summary where it lies, and these to one answer.

Nothing here holds the events of two ranks at once. `summarizing` makes summaries of one recording,
`summary` stores them, `clocks` and `matching` align ranks by their collectives, and `verdict` says
which ranks delay the job. `cluster` spreads the first step over processes.
"""
