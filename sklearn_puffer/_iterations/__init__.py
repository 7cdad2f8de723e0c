"""What stands behind a noisy descent: its moves, their losses, and its steps."""
