# Memory that handles and mappings keep, and memory of other processes: counted once, and the forgotten reference named.
import harness

MIB = 1 << 20


def leaks(traced):
    return [f for f in harness.all_findings(traced) if f["severity"] == "leak"]


def virtual_memory(how):
    program = harness.build(harness.PROGRAMS / "virtual_memory.cpp", runtime="driver")
    traced = harness.trace(program, how)
    harness.equal(traced.code, 0, "exit code")
    return traced


def held(traced):
    return traced.report["processes"][0]["devices"][0]["ledger"]["live_bytes"]


def test_physical_memory_released_before_it_is_unmapped_is_no_leak():
    traced = virtual_memory("right")
    harness.equal((leaks(traced), held(traced)), ([], 0), "leaks and bytes held")


def forgets(how, words):
    def test():
        traced = virtual_memory(how)
        found = leaks(traced)
        harness.equal([(f["id"], f["bytes"], f["device"]) for f in found], [("vmm-leak", 80 * MIB, "cuda:0")], "leaks")
        harness.equal(held(traced), 80 * MIB, "bytes held")
        assert any(words in line for line in found[0]["evidence"]), found[0]["evidence"]
    return test


test_a_handle_that_is_not_released = forgets("release", "40 by a handle that was not released")
test_a_mapping_that_is_not_undone = forgets("unmap", "40 by a mapping, the handle being released")
test_a_retained_handle_that_is_released_once = forgets("retain", "40 by a handle that was not released")


def opener(traced):
    return next(p for p in traced.report["processes"] if p["argv"][1] in ("forgets", "closes"))


def test_other_processes_memory_that_is_closed_is_nothing():
    traced = harness.trace(harness.build(harness.PROGRAMS / "opens.cpp"), "closes")
    harness.equal((traced.code, [f["id"] for f in opener(traced)["findings"] if f["severity"] == "leak"]), (0, []), "exit code, leaks")


def test_other_processes_memory_that_stays_open_is_imported_and_told():
    traced = harness.trace(harness.build(harness.PROGRAMS / "opens.cpp"), "forgets")
    process = opener(traced)
    found = [(f["id"], f["bytes"], f["blocks"]) for f in process["findings"] if f["severity"] == "leak"]
    harness.equal(found, [("ipc-mapping-held", 40 * MIB, 40)], "leaks")
    ledger = process["devices"][0]["ledger"]
    harness.equal((ledger["imported_bytes"], ledger["live_bytes"]), (40 * MIB, 0), "imported and own bytes")


harness.main()
