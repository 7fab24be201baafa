"""What CPU threads did and waited for: states, samples, and the functions and lines of stacks."""
