"""What stands behind a sum over users: laws of sums, reports, scales and certificates."""
