"""PyTorch on a side stream: (left) large tensors in the first steps alone, (used) in every step."""
import sys
import time

import torch

side = torch.cuda.Stream()
model = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    if sys.argv[1] == "used" or step < 10:
        with torch.cuda.stream(side):
            staged = [torch.empty(32 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
            del staged
    optimizer.zero_grad()
    model(torch.randn(1024, 1024, device="cuda")).sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
    time.sleep(0.02)
