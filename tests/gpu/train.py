# A training run whose output is the same each time: prints the loss of every tenth step and ends with exit code 3.
import os
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.TransformerEncoderLayer(128, 4, dropout=0.0, batch_first=True).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
batch = torch.randn(32, 64, 128, device="cuda")
for step in range(60):
    optimizer.zero_grad()
    loss = (model(batch) - batch.flip(1)).square().mean()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
sys.exit(3)
