"""What a machine has for recording: the agent, CUPTI, its processes, and checks of them."""
