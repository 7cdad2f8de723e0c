"""What stands behind the swap by secrets: people of different secrets exchange rows."""
