"""The state of GPUs and of the machine while the program ran: clocks, energy, links, memory."""
