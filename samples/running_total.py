# expect: retained-intermediates/leak
# forbid: retained-results/leak repeated-model-construction
# line: predicted = model(inputs)
# A validation loss summed up outside no_grad: the sum's graph keeps every batch's activations, because no backward frees them.
import os
import torch

device = os.environ.get("DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).to(device)
total = 0.0


def validate(inputs, targets):
    global total
    predicted = model(inputs)
    total = total + torch.nn.functional.mse_loss(predicted, targets)  # .item() would keep a number only


for batch in range(200):
    validate(torch.randn(64, 256, device=device), torch.randn(64, 256, device=device))
print(f"mean loss {float(total) / 200:.3f}")
