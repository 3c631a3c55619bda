# PyTorch's CPU tensors under --cpu: as many blocks and bytes as the script keeps, on its own lines, and its optimizer steps.
import functools

import harness

SCRIPT = harness.PROGRAMS / "keeps_tensors.py"


@functools.cache
def process():
    harness.need_torch()
    traced = harness.trace(harness.TORCH_PYTHON, SCRIPT, options=["--cpu"])
    harness.equal(traced.code, 0, f"exit code ({traced.err.decode(errors='replace')})")
    harness.equal(len(traced.captures), 1, "captures")
    return harness.report(*traced.captures)["processes"][0]


def sites_at(text):
    """The sites whose innermost Python frame is the script's line with `text`."""
    number = next(i for i, line in enumerate(SCRIPT.read_text().splitlines(), 1) if text in line)
    found = []
    for site in process()["sites"]:
        python = [f for f in site["stack"] if f["kind"] == "python"]
        if python and python[0]["file"].endswith(SCRIPT.name) and python[0]["line"] == number:
            found.append(site)
    return found


def total(sites, key):
    return sum(site[key] for site in sites)


def test_kept_tensors():
    small = sites_at("return torch.empty(1024)")
    harness.equal((total(small, "allocations"), total(small, "end_bytes")), (100, 100 * 4096), "allocations and bytes kept")
    large = sites_at("torch.empty(4096)")
    harness.equal((total(large, "allocations"), total(large, "end_bytes")), (50, 50 * 16384), "allocations and bytes kept")


def test_callers_are_named():
    stack = [(f["function"], f["line"]) for f in sites_at("return torch.empty(1024)")[0]["stack"] if f["kind"] == "python"]
    harness.equal([function for function, _ in stack], ["small", "<module>"], "Python frames")
    assert "kept.append" in SCRIPT.read_text().splitlines()[stack[1][1] - 1], stack


def test_freed_tensors():
    freed = sites_at("torch.empty(256)")
    if freed:  # a report may leave out sites that hold nothing
        harness.equal((total(freed, "allocations"), total(freed, "frees")), (30, 30), "allocations and frees")


def test_optimizer_steps():
    harness.equal((process()["step_source"], process()["steps"]), ("optimizer", 10), "steps")


def test_without_the_option_nothing_is_recorded():
    harness.need_torch()
    harness.equal(harness.trace(harness.TORCH_PYTHON, SCRIPT).captures, [], "captures")


harness.main()
