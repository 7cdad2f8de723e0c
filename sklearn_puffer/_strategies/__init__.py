"""The parts that strategies are made of: plans, their bounds, and how bounds combine."""
