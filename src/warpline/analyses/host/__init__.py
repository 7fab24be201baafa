"""Tables of what CPU threads did: samples by function, states, the GIL, time off the CPU."""
