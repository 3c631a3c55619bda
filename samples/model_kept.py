# expect: repeated-model-construction/leak
# line: model = build_model()
# A new model for every epoch of the search; the registry of schedulers keeps the optimizer, and with it the model, of all of them.
import os
import torch

device = os.environ.get("DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
schedulers = []


def build_model():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).to(device)


def train(model, optimizer):
    for step in range(10):
        optimizer.zero_grad()
        model(torch.randn(64, 256, device=device)).square().mean().backward()
        optimizer.step()


for epoch in range(12):
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=10 ** -(1 + epoch / 4))
    schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, step_size=5))
    train(model, optimizer)
print(len(schedulers), "learning rates tried")
