# The driver's pools: what they keep that nothing uses is in the ledger, and told where its threshold was raised; what is used is not.
import harness

MIB = 1 << 20
PROGRAM = harness.build(harness.PROGRAMS / "pools.cpp")


def run(how, **env):
    traced = harness.trace(PROGRAM, how, env=env)
    harness.equal(traced.code, 0, f"exit code ({traced.err.decode(errors='replace')})")
    return traced.process


def findings(process):
    return [(f["id"], f["severity"]) for f in process["findings"]]


def cached(process):
    return harness.device(process)["ledger"]["cached_bytes"] // MIB


def test_what_nothing_uses_is_waste_at_the_line_that_raised_the_threshold():
    process = run("idle")
    harness.equal(findings(process), [("pool-threshold", "waste")], "findings")
    waste = process["findings"][0]
    assert harness.names_line(waste, harness.PROGRAMS / "pools.cpp", "cudaMemPoolSetAttribute"), waste["sites"][0]["stack"][:3]
    harness.equal((waste["bytes"] // MIB, cached(process)), (1024 - 8, 1024), "idle through the second half of the run, and at its end")
    harness.equal(process["pools"][0]["threshold_set_at"]["line"] > 0, True, "line of the threshold")


def test_what_each_iteration_fills_is_used():
    process = run("used")
    harness.equal((findings(process), cached(process)), ([], 1024), "findings, cached MiB")


def test_a_trimmed_pool_holds_what_is_used():
    process = run("trims")
    harness.equal((findings(process), cached(process) < 64), ([], True), f"findings, few MiB ({cached(process)})")


def test_a_destroyed_pool_holds_nothing():
    process = run("own")
    harness.equal((findings(process), cached(process)), ([], 0), "findings, cached MiB")
    harness.equal([(pool["destroyed"], pool["peak_reserved_bytes"] // MIB) for pool in process["pools"]], [(True, 1024)], "the pool")


def test_a_growing_pool_is_no_unattributed_growth():
    process = run("grows", VRAMTRACK_SIM_USAGE=str(harness.scratch()), VRAMTRACK_SIM_CONTEXT="300M")
    harness.equal([f for f in findings(process) if f[1] == "leak"], [], "leaks")
    ledger = harness.device(process)["ledger"]
    parts = sum(ledger[part] for part in ("live_bytes", "cached_bytes", "context_bytes", "unattributed_bytes"))
    harness.equal(parts, ledger["used_bytes"], "sum of the ledger's parts")
    # The pool is asked ten times a second: what it took since is told as the context's.
    assert 300 * MIB <= ledger["context_bytes"] < 400 * MIB and ledger["cached_bytes"] > 1800 * MIB, ledger


harness.main()
