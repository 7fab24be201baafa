"""The steps of a program: found, measured, compared, and chosen to stand for the run."""
