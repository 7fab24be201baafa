"""What ``warpline mcp`` serves: tools by which programs and language models ask about recordings.

`tools` declares the tools and takes calls; each tool is a function of its own module. Answers are
JSON and bounded (`pages`); paths are confined (`folders`). Only `server` knows the protocol.
"""
