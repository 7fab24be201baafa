"""Finishing: the conversion of a session's logs to a recording, in a process of its own."""
