# Trains a little on the GPU, prints what PyTorch's allocator says it did, and is killed before the interpreter frees anything.
import json
import os
import signal

import torch

model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
kept = []
for step in range(50):
    optimizer.zero_grad()
    output = model(torch.randn(64, 512, device="cuda"))
    output.square().mean().backward()
    optimizer.step()
    kept.append(output.detach())

torch.cuda.synchronize()
stats = torch.cuda.memory_stats()
names = {"allocations": "allocation.all.allocated", "frees": "allocation.all.freed", "bytes": "allocated_bytes.all.current",
         "blocks": "allocation.all.current"}
print(json.dumps({name: stats[key] for name, key in names.items()}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
