"""Tables of the state of GPUs and of the machine: clocks, power, energy, links, memory, CPU."""
