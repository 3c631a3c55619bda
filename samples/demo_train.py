# expect: retained-intermediates/leak
# line: total = total + F.cross_entropy(model(images), labels)
# expect: repeated-model-construction/leak
# line: model = build_model()
# Cross-validation of a small image classifier. It runs, it learns, and its memory grows until the GPU is full. Why?
import os

import torch
import torch.nn.functional as F
from torch import nn

device = os.environ.get("DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)

FOLDS, EPOCHS, TRAIN_BATCHES, TEST_BATCHES = 8, 3, 6, 3
prototypes = torch.randn(10, 3, 16, 16)


def load_batch(size=32):
    labels = torch.randint(0, 10, (size,))
    images = prototypes[labels] + 0.5 * torch.randn(size, 3, 16, 16)
    return images.to(device), labels.to(device)


def build_model():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10),
    ).to(device)


def train_epoch(model, optimizer):
    for _ in range(TRAIN_BATCHES):
        images, labels = load_batch()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()


def validate(model):
    total = 0.0
    for _ in range(TEST_BATCHES):
        images, labels = load_batch()
        total = total + F.cross_entropy(model(images), labels)
    return total / TEST_BATCHES


history = []
finished = []

for fold in range(FOLDS):
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        train_epoch(model, optimizer)
        history.append(validate(model))
    finished.append((fold, optimizer))
    print(f"fold {fold}: validation loss {history[-1]:.3f}", flush=True)
