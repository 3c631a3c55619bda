# Streams, events, graphs, pools: made and destroyed, each is counted, by whichever runtime, with the line that made it.
import harness

PROGRAM = harness.PROGRAMS / "handles.cpp"


def counted(runtime):
    traced = harness.trace(harness.build(PROGRAM, runtime))
    harness.equal(traced.code, 0, f"exit code ({traced.err.decode(errors='replace')})")
    wanted = dict(line.split() for line in traced.out.decode().splitlines())
    wanted["stream"] = str(int(wanted["stream"]) + 1)  # the one that captures
    live = {row["kind"]: str(row["live"]) for row in traced.process["handles"] if row["live"]}
    for own in ("context", "library", "module"):  # the runtime's
        live.pop(own, None)
    harness.equal(live, wanted, f"live handles, {runtime} runtime")
    return traced.process


def test_shared_runtime():
    harness.equal(counted("shared")["findings"], [], "findings: a few of each are no leak")


def test_static_runtime():
    counted("static")


def test_handles_are_no_memory():
    process = counted("shared")
    for device in process["devices"]:
        harness.equal(device["ledger"]["live_bytes"], 0, "live bytes")
    harness.equal([site["kind"] for site in process["sites"]], [], "sites")


def test_a_device_reset_takes_them():
    source = harness.scratch() / "reset.cpp"
    source.write_text('#include "check.h"\nint main() {\n'
                      '  cudaStream_t s;\n  void* p;\n'
                      '  for (int i = 0; i < 5; i++) CHECK(cudaStreamCreate(&s));\n'
                      '  CHECK(cudaMalloc(&p, 1));\n  CHECK(cudaDeviceReset());\n  CHECK(cudaStreamCreate(&s));\n}\n')
    process = harness.trace(harness.build(source)).process
    harness.equal([(h["live"], h["made"]) for h in process["handles"] if h["kind"] == "stream"], [(1, 6)], "streams")


harness.main()
