"""From what is asked for to what the agents count: the GPUs, their chip, and the plan."""
