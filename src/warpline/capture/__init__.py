"""Recording programs: the launcher, the session's folder, and finishing it into a recording.

Nothing here imports numpy or Polars: it runs beside the program that is recorded, or inside it.
The agent that records from within the program is native; see ``native/agent``.
"""
