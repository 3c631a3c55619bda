# Parent and child each have a capture of their own with the right pid, and neither's holds a block of the other's.
import harness

PROGRAM = harness.build(harness.PROGRAMS / "forks.cpp")
KIB, MIB = 1 << 10, 1 << 20


def fork(what):
    """Runs the program; answers the parent's and the child's process of the report, None where there is none."""
    traced = harness.trace(PROGRAM, what)
    harness.equal(traced.code, 0, f"exit code ({traced.err.decode(errors='replace')})")
    parent, child = map(int, traced.out.split())
    by_pid = {p["pid"]: p for p in traced.report["processes"]}
    assert set(by_pid) <= {parent, child}, f"pids {sorted(by_pid)}, not of {parent} and {child}"
    harness.equal(len(traced.captures), len(by_pid), "captures")
    if child in by_pid:
        harness.equal(by_pid[child]["ppid"], parent, "ppid of the child")
    return by_pid.get(parent), by_pid.get(child)


def live(process):
    return harness.device(process)["ledger"]["live_bytes"]


def test_both_allocate():
    parent, child = fork("both")
    harness.equal(live(parent), 5 * 256 * KIB, "parent's live bytes")
    harness.equal(live(child), 7 * 64 * KIB, "child's live bytes")


def test_child_that_only_ends_leaves_the_parents_capture_alone():
    parent, child = fork("parent")
    harness.equal(live(parent), 3 * MIB, "parent's live bytes")
    harness.equal(child, None, "child's process")


def test_child_that_uses_cuda_in_vain_leaves_the_parents_capture_alone():
    parent, child = fork("after")
    harness.equal(live(parent), 3 * MIB + 5 * 256 * KIB, "parent's live bytes")
    if child:
        harness.equal(live(child) if child["devices"] else 0, 0, "child's live bytes")


def test_functions_not_recorded_are_told_by_parent_and_child():
    # Looked up before either has a capture: the child has the function as well.
    source = harness.scratch() / "looks_up.cpp"
    source.write_text('#include "check.h"\n#include <dlfcn.h>\n#include <sys/wait.h>\n#include <unistd.h>\n'
                      'int main() {\n'
                      '  dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTexRefCreate");\n'
                      '  const bool child = fork() == 0;\n'
                      '  void* p;\n'
                      '  CHECK(cudaMalloc(&p, 1));\n'
                      '  return child ? 0 : wait(nullptr) < 0;\n}\n')
    traced = harness.trace(harness.build(source))
    for process in traced.report["processes"]:
        harness.equal([e["name"] for e in process["events"] if e["name"] == "cuTexRefCreate"], ["cuTexRefCreate"], "told functions")
    harness.equal(len(traced.report["processes"]), 2, "processes")


FORKS = """
import os, torch
kept = torch.empty(1024)
if os.fork():
    os.wait()
else:
    kept = torch.empty(1024)
    links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    print(*(link for link in links if link.endswith(".vtrk")), flush=True)
    os._exit(0)
"""


def test_a_child_that_records_closes_the_parents_capture():
    harness.need_torch()
    traced = harness.trace(harness.TORCH_PYTHON, "-c", FORKS, options=["--cpu"])
    harness.equal(len(traced.captures), 2, f"captures ({traced.err.decode(errors='replace')})")
    harness.equal(len(traced.out.split()), 1, f"captures that the child has open, {traced.out}")


def test_exec_is_followed():
    program = harness.build(harness.PROGRAMS / "waits.cpp")
    traced = harness.trace("bash", "-c", f"{program} < /dev/null; exec {program} < /dev/null")
    harness.equal(traced.code, 0, "exit code")
    harness.equal([live(p) for p in traced.report["processes"]], [8 * MIB, 8 * MIB], "live bytes")


harness.main()
