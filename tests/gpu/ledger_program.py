"""Uses a device for some seconds by torch, jax or cupy, and prints what NVML says the process uses, which nvidia-smi shows too."""
import ctypes
import os
import sys
import time


def used_bytes():
    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]

    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, count, processes = ctypes.c_void_p(), ctypes.c_uint(64), (Process * 64)()
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)
    return next((p.used for p in processes[:count.value] if p.pid == os.getpid()), 0)


def with_torch():
    import torch
    kept = [torch.randn(1024, 1024, device="cuda") for _ in range(100)]
    for x in kept:
        x @ x
    torch.cuda.synchronize()
    return kept


def with_jax():
    import jax
    import jax.numpy as jnp
    kept = [jax.random.normal(jax.random.key(i), (1024, 1024)) for i in range(100)]
    jnp.dot(kept[0], kept[1]).block_until_ready()
    return kept


def with_cupy():
    import cupy
    kept = [cupy.random.rand(1024, 1024, dtype=cupy.float32) for _ in range(100)]
    (kept[0] @ kept[1]).sum().item()
    return kept


kept = {"torch": with_torch, "jax": with_jax, "cupy": with_cupy}[sys.argv[1]]()
time.sleep(2)
print(used_bytes())
time.sleep(1)
