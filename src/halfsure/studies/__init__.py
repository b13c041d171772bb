"""Many runs: comparisons of methods on the same labels and seeds."""
