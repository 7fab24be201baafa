"""The rules of `analyze`: one performance problem per file.

A rule detects its problem by the behavior of launches, synchronization and kernels, never by the
names of a program's ranges. A finding's title and claim carry the measured numbers. Its changes
carry no saving: `replay.pricing` estimates that.
"""
