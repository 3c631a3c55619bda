# The driver's rarer ways to memory and to handles: what is given back is nothing, what is not is one leak of its kind, at its line.
import harness

MIB = 1 << 20
SOURCE = harness.PROGRAMS / "every_way.cpp"
PROGRAM = harness.build(SOURCE, "driver")

# way: (finding, kind, blocks, bytes, a part of the line)
WAYS = {
    "external-memory": ("handle-leak", "external-memory", 40, 0, "cudaImportExternalMemory"),
    "mapped-buffer": ("ipc-mapping-held", "shared", 40, 80 * MIB, "cudaExternalMemoryGetMappedBuffer"),
    "graphics": ("handle-leak", "graphics-resource", 40, 0, "cuGraphicsGLRegisterBuffer"),
    "user-object": ("handle-leak", "user-object", 40, 0, "cudaUserObjectCreate"),
    "green-context": ("handle-leak", "green-context", 40, 0, "cuGreenCtxCreate"),
    "multicast": ("vmm-leak", "physical", 40, 80 * MIB, "cuMemCreate"),
    "multicast-object": ("vmm-leak", "physical", 40, 80 * MIB, "cuMemCreate"),
    "sparse-array": ("vmm-leak", "physical", 40, 80 * MIB, "cuMemCreate"),
    "host-pool": ("pinned-growth", "stream-ordered", 40, 80 * MIB, "cudaMallocFromPoolAsync"),
    "auto-free": ("graph-memory", "graph-memory", 40, 80 * MIB, "cudaGraphAddMemAllocNode"),
}


def run(way, how):
    traced = harness.trace(PROGRAM, way, how)
    harness.equal((traced.code, traced.err), (0, traced.err), "exit code")
    return traced.process, [f for f in traced.process["findings"] if f["severity"] == "leak"]


def check(way):
    name, kind, blocks, size, line = WAYS[way]
    harness.equal(run(way, "balanced")[1], [], f"{way}: leaks of what is given back")
    process, leaks = run(way, "leaks")
    found = [leak for leak in leaks if leak["id"] == name and leak["kind"] == kind]
    said = [(leak["id"], leak["kind"], leak["title"]) for leak in leaks]
    assert len(found) == 1, f"{way}: {said}"
    harness.equal((found[0]["blocks"], found[0]["bytes"]), (blocks, size), f"{way}: blocks and bytes")
    assert harness.names_line(found[0], SOURCE, line), f"{way}: {found[0]['title']}"
    return process, leaks


for name in WAYS:
    globals()[f"test_{name.replace('-', '_')}"] = lambda way=name: check(way)


def test_what_is_imported_is_not_the_processes_own():
    process, _ = run("mapped-buffer", "leaks")
    ledger = harness.device(process)["ledger"]
    harness.equal((ledger["imported_bytes"], ledger["live_bytes"]), (80 * MIB, 0), "imported and live bytes")


harness.main()
