"""Without the folder `albert_tf/kernels/`, the library computes the same."""
