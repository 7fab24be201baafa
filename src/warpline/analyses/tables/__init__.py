"""Tables named, ordered and computed as Nsight Systems' own."""
