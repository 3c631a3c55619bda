# expect: repeated-model-construction/waste
# forbid: leak
# line: model = build_model()
# Looks like a leak and is none: the old model dies when `model` is bound again, which is after the new one was built. The peak
# holds two. `del model` before the next build, or building it once outside the loop, takes one off.
import os
import torch

device = os.environ.get("DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
width = 2048 if device == "cuda" else 512


def build_model():
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)).to(device)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(10):
        optimizer.zero_grad()
        model(torch.randn(32, width, device=device)).square().mean().backward()
        optimizer.step()


for epoch in range(12):
    model = build_model()
    train(model)
print("done")
