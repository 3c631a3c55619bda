# A graph's allocation node is memory from the launch on, until somebody frees it: by what it was made, and however it is freed.
import harness

HEAD = '#include "check.h"\n#include <thread>\n' + '''
static cudaStream_t stream;
static void* block;
static cudaGraph_t captured(bool frees) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&block, 1 << 20, stream));
  CHECK(cudaMemsetAsync(block, 0, 1 << 20, stream));
  if (frees) CHECK(cudaFreeAsync(block, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}
static cudaGraphExec_t instance(cudaGraph_t graph, unsigned long long flags = 0) {
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, flags));
  return exec;
}
static void launch(cudaGraphExec_t exec) {
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
}
int main() {
  CHECK(cudaStreamCreate(&stream));
'''


def ran(body):
    source = harness.scratch() / "graphs.cpp"
    source.write_text(HEAD + body + "\n}\n")
    traced = harness.trace(harness.build(source))
    harness.equal(traced.code, 0, f"exit code ({traced.err.decode(errors='replace')})")
    return traced.process


def live_mib(body):
    process = ran(body)
    return sum(device["ledger"]["live_bytes"] for device in process["devices"]) >> 20


def test_a_node_is_memory_from_the_launch_on():
    harness.equal(live_mib("instance(captured(false));"), 0, "MiB before the launch")
    harness.equal(live_mib("launch(instance(captured(false)));"), 1, "MiB after it")


def test_what_the_graph_frees_is_gone():
    harness.equal(live_mib("auto exec = instance(captured(true)); for (int i = 0; i < 5; i++) launch(exec);"), 0, "MiB")


def test_what_the_program_frees_is_gone():
    harness.equal(live_mib("launch(instance(captured(false))); CHECK(cudaFree(block));"), 0, "MiB, freed by cudaFree")
    harness.equal(live_mib("launch(instance(captured(false))); CHECK(cudaFreeAsync(block, stream));"), 0, "MiB, by cudaFreeAsync")


def test_what_another_graph_frees_is_gone():
    harness.equal(live_mib("launch(instance(captured(false))); cudaGraph_t frees; CHECK(cudaGraphCreate(&frees, 0));"
                           "cudaGraphNode_t node; CHECK(cudaGraphAddMemFreeNode(&node, frees, nullptr, 0, block));"
                           "launch(instance(frees));"), 0, "MiB")


def test_auto_free_keeps_the_last_launch():
    harness.equal(live_mib("auto exec = instance(captured(false), cudaGraphInstantiateFlagAutoFreeOnLaunch);"
                           "for (int i = 0; i < 5; i++) launch(exec);"), 1, "MiB")


def test_an_instance_outlives_its_graph():
    harness.equal(live_mib("auto graph = captured(false); auto exec = instance(graph); CHECK(cudaGraphDestroy(graph)); launch(exec);"),
                  1, "MiB")


def test_two_captures_at_once_stay_apart():
    body = ("cudaStream_t other; CHECK(cudaStreamCreate(&other)); void *a, *b; cudaGraph_t first, second;"
            "CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));"
            "CHECK(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));"
            "CHECK(cudaMallocAsync(&a, 1 << 20, stream)); CHECK(cudaMallocAsync(&b, 8 << 20, other));"
            "CHECK(cudaStreamEndCapture(stream, &first)); CHECK(cudaStreamEndCapture(other, &second));")
    harness.equal(live_mib(body + "launch(instance(second));"), 8, "MiB of the second graph")
    harness.equal(live_mib(body + "launch(instance(first));"), 1, "MiB of the first graph")


def test_a_capture_may_change_threads():
    filled = "std::thread([] { CHECK(cudaMallocAsync(&block, 4 << 20, stream)); }).join();"
    ended = "cudaGraph_t graph; std::thread([&] { CHECK(cudaStreamEndCapture(stream, &graph)); }).join(); launch(instance(graph));"
    harness.equal(live_mib("CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));" + filled + ended), 4, "MiB")


def test_a_free_node_added_later_is_not_in_the_instance():
    harness.equal(live_mib("auto graph = captured(false); auto exec = instance(graph); cudaGraphNode_t node;"
                           "CHECK(cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, block)); launch(exec);"), 1, "MiB")


def test_a_launch_into_a_capture_is_none():
    harness.equal(live_mib("auto exec = instance(captured(false)); cudaGraph_t outer;"
                           "CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));"
                           "if (cudaGraphLaunch(exec, stream) != cudaSuccess) std::puts(\"not simulated\");"
                           "(void)cudaStreamEndCapture(stream, &outer);"), 0, "MiB")


def test_a_node_added_by_call():
    process = ran("cudaMemAllocNodeParams p = {}; p.bytesize = 3 << 20; p.poolProps.allocType = cudaMemAllocationTypePinned;"
                  "p.poolProps.location.type = cudaMemLocationTypeDevice; cudaGraph_t graph; CHECK(cudaGraphCreate(&graph, 0));"
                  "cudaGraphNode_t node; CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &p)); launch(instance(graph));")
    site, = process["sites"]
    harness.equal((site["kind"], site["end_bytes"], site["api"]), ("graph-memory", 3 << 20, "cudaGraphAddMemAllocNode"), "site")


def test_captured_anew_each_time_it_is_a_leak():
    process = ran("for (int i = 0; i < 60; i++) { auto graph = captured(false); auto exec = instance(graph); launch(exec);"
                  "CHECK(cudaGraphExecDestroy(exec)); CHECK(cudaGraphDestroy(graph)); }")
    finding, = process["findings"]
    harness.equal((finding["id"], finding["severity"], finding["bytes"]), ("graph-memory", "leak", 60 << 20), "finding")
    assert "captured" in [f["function"] for f in finding["sites"][0]["stack"]], finding["sites"][0]["stack"]


harness.main()
