"""Recording programs: the launcher, the session directory, and writing the recording.

numpy and Polars are not imported here: this code runs next to the profiled program or inside it.
The agent that records from within the program is native; see ``native/agent``.
"""
