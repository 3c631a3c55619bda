# Sixteen threads that allocate at once: not one allocation or free is lost or counted twice.
import harness


def test_exact_counts():
    traced = harness.trace(harness.build(harness.PROGRAMS / "threads.cpp"))
    harness.equal(traced.code, 0, "exit code")
    process = harness.report(*traced.captures)["processes"][0]
    device = harness.device(process)
    harness.equal(device["allocations"], 16 * 2000, "allocations")
    harness.equal(device["frees"], 16 * 1997, "frees")
    harness.equal(device["ledger"]["live_bytes"], 3 * 4096 * sum(range(1, 17)), "live bytes")
    harness.equal(sum(s["blocks"] for s in process["sites"]), 48, "live blocks")
    harness.equal(process["lost"]["events"], 0, "lost events")
    assert device["peak_bytes"] >= device["ledger"]["live_bytes"]


harness.main()
