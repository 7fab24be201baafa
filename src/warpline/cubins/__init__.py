"""Machine code as the driver loads it: instructions, their lines, and their text."""
