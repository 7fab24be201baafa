"""Tables about hardware counters per kernel launch, one file each."""
