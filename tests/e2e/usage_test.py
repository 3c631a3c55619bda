# What the driver takes beside the allocations: measured from outside, in the ledger, and named when it grows.
import harness

MIB = 1 << 20


def grows(how):
    env = {"VRAMTRACK_SIM_USAGE": str(harness.scratch()), "VRAMTRACK_SIM_CONTEXT": "300M", "VRAMTRACK_SIM_STREAM": "512K"}
    return harness.trace(harness.build(harness.PROGRAMS / "grows_unseen.cpp"), how, env=env)


def test_streams_that_take_memory_are_named():
    traced = grows("streams")
    found = {f["id"]: f for f in harness.all_findings(traced)}
    assert "unattributed-growth" in found, list(found)
    leak = found["unattributed-growth"]
    assert 90 * MIB < leak["bytes"] <= 125 * MIB, leak["bytes"]
    assert "streams made at grows_unseen.cpp:13" in leak["title"], leak["title"]
    ledger = traced.report["processes"][0]["devices"][0]["ledger"]
    parts = sum(ledger[part] for part in ("live_bytes", "context_bytes", "unattributed_bytes"))
    harness.equal(parts, ledger["used_bytes"], "sum of the ledger's parts")


def test_a_context_is_measured_and_no_growth():
    traced = grows("steady")
    harness.equal([f["id"] for f in harness.all_findings(traced) if f["severity"] == "leak"], [], "leaks")
    ledger = traced.report["processes"][0]["devices"][0]["ledger"]
    harness.equal((ledger["live_bytes"], ledger["unattributed_bytes"]), (100 * MIB, 0), "live and unattributed bytes")
    harness.equal((ledger["context_bytes"], ledger["used_bytes"]), (300 * MIB, 400 * MIB), "context and used bytes")


harness.main()
