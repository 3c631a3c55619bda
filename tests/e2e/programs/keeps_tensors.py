# Keeps 100 tensors of 4 KiB made on one line, 50 of 16 KiB on another, frees 30 of 1 KiB, and takes 10 optimizer steps.
import torch

kept = []


def small():
    return torch.empty(1024)


for _ in range(100):
    kept.append(small())
large = [torch.empty(4096) for _ in range(50)]
for _ in range(30):
    torch.empty(256)

weights = torch.nn.Parameter(torch.zeros(64))
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    weights.sum().backward()
    optimizer.step()
