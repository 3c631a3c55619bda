"""PyTorch's cache: (unused) most of it is needed in the first steps alone, (used) in every step, (pieces) a request larger than any of its
free pieces is refused, though together they would do."""
import sys
import time

import torch

MIB = 1 << 20


def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def steps(needs):
    for step in range(60):
        kept = [block(64) for _ in range(needs(step))]
        torch.cuda.synchronize()
        del kept
        time.sleep(0.05)


def pieces():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2048 * MIB / total)
    kept, gone = [], []
    for _ in range(90):  # each segment of 20 MiB has a block that stays
        kept.append(block(2))
        gone.append(block(8))
        gone.append(block(9))
    gone.clear()
    try:
        block(800)
    except torch.cuda.OutOfMemoryError:
        print("refused")
    steps(lambda step: 1)
    return kept


if sys.argv[1] == "pieces":
    kept = pieces()
else:
    steps(lambda step: 32 if sys.argv[1] == "used" or step < 10 else 4)
