# Runs under the hooks with a fake recording: blocks of real PyTorch come and go in balance, and backward is seen.
import ctypes

import torch

hooks = ctypes.CDLL(None)
hooks.vramtrack_fake_events.restype = ctypes.c_char_p


def counted():
    numbers = [ctypes.c_long() for _ in range(3)]
    hooks.vramtrack_fake_torch(*map(ctypes.byref, numbers))
    return [number.value for number in numbers]


def train(model, optimizer):
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()


model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
train(model, optimizer)
blocks, live, reports = counted()

kept = torch.empty(1000, dtype=torch.float32)
assert counted() == [blocks + 1, live + 4000, reports + 1], counted()
del kept
train(model, optimizer)
assert counted()[:2] == [blocks, live], (counted(), blocks, live)
assert counted()[2] > reports + 100, counted()

hooks.vramtrack_fake_reset()
torch.ones(1, requires_grad=True).sum().backward()
assert b"torch: backward begins\n" in hooks.vramtrack_fake_events()

hooks.vramtrack_fake_reset()
loss = (torch.ones(4, requires_grad=True) ** 2).sum()
loss.backward()
try:
    loss.backward()  # the graph is gone: the engine throws through us
    raise SystemExit("the second backward did not throw")
except RuntimeError:
    pass
assert hooks.vramtrack_fake_events().count(b"backward begins") == 2

with torch.profiler.profile(profile_memory=True) as profile:
    torch.ones(100)
assert any(event.cpu_memory_usage for event in profile.events()), "torch.profiler lost its memory events"
print(torch.__version__, counted())
