"""Calls of a framework's operators, and what tells them apart."""
