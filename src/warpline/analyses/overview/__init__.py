"""Warpline's own tables that `summary` shows on one screen."""
