"""Several sequences at once: who is decoded and who waits, and the loop over all of them."""
