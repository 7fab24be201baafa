"""What the commands and the functions of `warpline` return, computed by name.

Tables, the diagnosis, the summary, and the content of a report. Everything here takes an open
trace; `warpline.api` opens files.
"""
