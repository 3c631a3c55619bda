# A small CuPy computation that keeps 20 arrays; prints its result.
import cupy

kept = [cupy.full((1024, 256), i, dtype=cupy.float32) for i in range(20)]
print(float(sum(array.sum() for array in kept)))
