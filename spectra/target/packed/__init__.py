"""bf16 weights in the layout that the CPU's kernels read fastest, swapped in while a session is open."""
