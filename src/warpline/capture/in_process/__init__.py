"""``warpline.profile()``: recording from within the program itself."""
