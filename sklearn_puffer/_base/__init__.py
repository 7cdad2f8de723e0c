"""What every module may stand on: types of arrays, and floats that are rounded outwards."""
