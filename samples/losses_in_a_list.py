# expect: retained-intermediates/leak
# forbid: repeated-model-construction
# line: hidden = torch.relu(encoder(batch))
# Training runs backward through the first loss only; the second goes into a list with the graph behind it.
import os
import torch

device = os.environ.get("DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
encoder = torch.nn.Linear(256, 512).to(device)
decoder = torch.nn.Linear(512, 256).to(device)
probe = torch.nn.Linear(512, 128).to(device)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
probe_losses = []


def train_step(batch):
    optimizer.zero_grad()
    loss = (decoder(torch.relu(encoder(batch))) - batch).square().mean()
    loss.backward()
    optimizer.step()


def watch(batch):
    hidden = torch.relu(encoder(batch))
    probe_losses.append(probe(hidden).square().mean())


for step in range(150):
    batch = torch.randn(64, 256, device=device)
    train_step(batch)
    watch(batch)
print(len(probe_losses), "losses")
