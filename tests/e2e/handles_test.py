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


# --- handles of CUDA's libraries ---

def library_program():
    """A stand-in for cuBLAS and cuFFT in one file, whose two names lead to it, and a program that is linked with it."""
    folder = harness.scratch()
    library = harness.build(harness.PROGRAMS / "fake_library.cpp", options=["-fPIC", "-shared", "-Wl,-soname,libcublas.so.13"],
                            target=folder / "libcublas.so.13")
    program = harness.build(harness.PROGRAMS / "library_handles.cpp", options=["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{folder}"])
    unlinked = harness.build(harness.PROGRAMS / "library_handles.cpp")
    return program, unlinked, library


def live_and_made(process, kind):
    return [(row["live"], row["made"]) for row in process["handles"] if row["kind"] == kind]


def test_library_handles_by_linking():
    program, _, _ = library_program()
    process = harness.trace(program, "balanced").process
    harness.equal((live_and_made(process, "cublas"), live_and_made(process, "cublaslt")), ([(0, 40)], []), "handles; what cuBLAS makes is its own")
    harness.equal([f["id"] for f in process["findings"] if f["severity"] == "leak"], [], "leaks")


def test_leaked_library_handles_are_one_finding_with_their_memory():
    program, _, _ = library_program()
    process = harness.trace(program, "leaks").process
    leaks = [f for f in process["findings"] if f["severity"] == "leak"]
    harness.equal([(f["id"], f["kind"], f["blocks"], f["bytes"]) for f in leaks], [("handle-leak", "cublas", 40, 40 * (5 << 20))], "leaks")
    assert harness.names_line(leaks[0], harness.PROGRAMS / "library_handles.cpp", "create(&handle)"), leaks[0]["sites"][0]["stack"][:3]
    harness.equal(leaks[0]["sites"][0]["stack"][0]["kind"], "native", "innermost frame")


def test_library_handles_by_look_up():
    _, program, library = library_program()
    process = harness.trace(program, "leaks", library).process
    harness.equal(live_and_made(process, "cublas"), [(40, 40)], "cuBLAS handles")


# --- contexts, ranges of addresses ---

def traced_program(name, body):
    source = harness.scratch() / f"{name}.cpp"
    source.write_text('#include <cuda.h>\n#include "check.h"\nint main() {\n  void* p;\n  CHECK(cudaMalloc(&p, 1));\n  CHECK(cudaFree(p));\n' + body + "}\n")
    return harness.trace(harness.build(source, "driver")).process


def leaks_of(process):
    return [(f["id"], f["kind"], f["blocks"]) for f in process["findings"] if f["severity"] == "leak"]


def test_contexts_that_pile_up():
    body = ("  for (int i = 0; i < 20; i++) {\n    CUcontext c;\n    if (cuCtxCreate(&c, nullptr, 0, 0)) return 1;\n"
            "    CUdeviceptr d;\n    if (cuMemAlloc(&d, 4096) || cuMemFree(d)) return 2;\n  }\n")
    harness.equal(leaks_of(traced_program("contexts", body)), [("handle-leak", "context", 20)], "leaks")
    harness.equal(leaks_of(traced_program("destroyed", body.replace("  }\n", "    cuCtxDestroy(c);\n  }\n"))), [], "leaks")


def test_address_ranges_that_pile_up():
    body = ("  for (int i = 0; i < 50; i++) {\n    CUdeviceptr d;\n    if (cuMemAddressReserve(&d, 2 << 20, 0, 0, 0)) return 1;\n"
            "    CHECK(cudaMalloc(&p, 1));\n    CHECK(cudaFree(p));\n  }\n")
    harness.equal(leaks_of(traced_program("ranges", body)), [("vmm-leak", "address-range", 50)], "leaks")
    harness.equal(leaks_of(traced_program("freed", body.replace("  }\n", "    if (cuMemAddressFree(d, 2 << 20)) return 2;\n  }\n"))), [], "leaks")


def test_a_reset_takes_host_memory_of_its_context():
    body = ("  static char own[50][1 << 16];\n  for (int i = 0; i < 50; i++) {\n    CHECK(cudaMallocHost(&p, 1 << 16));\n"
            "    CHECK(cudaHostRegister(own[i], 1 << 16, 0));\n    CHECK(cudaDeviceReset());\n  }\n")
    process = traced_program("reset", body)
    harness.equal(leaks_of(process), [], "leaks")
    harness.equal(harness.device(process, "pinned")["ledger"]["live_bytes"], 0, "pinned bytes")


def test_a_free_after_the_reset_is_told_as_one():
    process = traced_program("late", "  CHECK(cudaMalloc(&p, 1));\n  CHECK(cudaDeviceReset());\n  cudaFree(p);\n")
    harness.equal([f["title"].split(" frees ")[1] for f in process["findings"]], ["a block that went with its context before"], "titles")


harness.main()
