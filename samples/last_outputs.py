# expect: stale-intermediates/waste
# forbid: leak
# line: outputs = head(torch.relu(body(batch)))
# Looks like a leak in nvidia-smi and is none: the last step's outputs live until the name is bound again, in the middle of the
# next forward, so the peak holds two steps' outputs. `del outputs, loss` at the end of the step takes one off.
import os
import torch

device = os.environ.get("DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
rows = 4096 if device == "cuda" else 128
body = torch.nn.Linear(64, 64).to(device)
head = torch.nn.Linear(64, 4096).to(device)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=1e-3)

for step in range(80):
    batch = torch.randn(rows, 64, device=device)
    outputs = head(torch.relu(body(batch)))
    loss = outputs.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss.item():.3f}")
