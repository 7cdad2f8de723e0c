"""How repeated releases add up, and the file that keeps count of them."""
