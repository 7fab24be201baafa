"""A session: the directory shared by launcher, agents and finishing while a program is recorded."""
