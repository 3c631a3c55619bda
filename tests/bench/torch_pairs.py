# Prints the nanoseconds of one torch.empty and its free, 20 Python frames deep. DEVICE and HISTORY (PyTorch's own recorder) as asked.
import os
import statistics
import time

import torch

PAIRS, ROUNDS, DEPTH = 20_000, 7, 20
device = torch.device(os.environ.get("DEVICE", "cpu"))


def pairs(empty=torch.empty):
    began = time.perf_counter_ns()
    for _ in range(PAIRS):
        empty(256, device=device)
    return (time.perf_counter_ns() - began) / PAIRS


def deep(frames):
    return pairs() if frames == 1 else deep(frames - 1)


if os.environ.get("HISTORY"):
    torch.cuda.memory._record_memory_history(stacks="all")
deep(DEPTH)
print(statistics.median(deep(DEPTH) for _ in range(ROUNDS)))
