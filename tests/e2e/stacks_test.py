# Stacks in odd places: below code that was unloaded, and deeper than what is kept.
import harness


def test_an_unloaded_plugin_splits_no_site():
    folder = harness.scratch()
    plugin, host = folder / "plugin.cpp", folder / "host.cpp"
    plugin.write_text('#include "check.h"\nextern "C" void work() { void* p; CHECK(cudaMalloc(&p, 4096)); }\n')
    harness.build(plugin, options=["-fPIC", "-shared"], target=folder / "plugin.so")
    host.write_text('#include "check.h"\n#include <dlfcn.h>\n'
                    'int main(int, char** argv) {\n'
                    '  for (int i = 0; i < 4; i++) {\n'
                    '    void* block;\n'
                    '    CHECK(cudaMalloc(&block, 1 << 20));  // kept\n'
                    '    void* plugin = dlopen(argv[1], RTLD_NOW);\n'
                    '    reinterpret_cast<void (*)()>(dlsym(plugin, "work"))();\n'
                    '    dlclose(plugin);\n'
                    '  }\n}\n')
    traced = harness.trace(harness.build(host), folder / "plugin.so")
    sites = harness.report(*traced.captures)["processes"][0]["sites"]
    kept = [site for site in sites if site["allocated_bytes"] // site["allocations"] == 1 << 20]
    harness.equal([site["allocations"] for site in kept], [4], "allocations of the sites of the program's own line")
    assert all(any(f["function"] == "work" for f in site["stack"]) for site in sites if site not in kept), sites


def test_a_plugin_that_is_loaded_again_elsewhere_is_one_site():
    folder = harness.scratch()
    plugin, host = folder / "plugin.cpp", folder / "host.cpp"
    plugin.write_text('#include "check.h"\nextern "C" void work() { void* p; CHECK(cudaMalloc(&p, 65536)); }\n')
    harness.build(plugin, options=["-fPIC", "-shared"], target=folder / "plugin.so")
    host.write_text('#include "check.h"\n#include <dlfcn.h>\n#include <sys/mman.h>\n'
                    'int main(int, char** argv) {\n'
                    '  for (int i = 0; i < 60; i++) {\n'
                    '    void* plugin = dlopen(argv[1], RTLD_NOW);\n'
                    '    void* work = dlsym(plugin, "work");\n'
                    '    reinterpret_cast<void (*)()>(work)();\n'
                    '    void* scratch;\n'
                    '    CHECK(cudaMalloc(&scratch, 4096));\n'
                    '    CHECK(cudaFree(scratch));\n'
                    '    dlclose(plugin);\n'
                    '    mmap(work, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // its place is taken\n'
                    '  }\n}\n')
    traced = harness.trace(harness.build(host), folder / "plugin.so")
    sites = harness.report(*traced.captures)["processes"][0]["sites"]
    harness.equal([s["allocations"] for s in sites if s["max_live_bytes"] >= 65536], [60], "allocations of the plugin's site")
    leak = [f for f in harness.all_findings(traced) if f["severity"] == "leak"]
    harness.equal([(f["id"], f["blocks"]) for f in leak], [("forgotten-free", 60)], "leaks")
    harness.equal([f["line"] for f in leak[0]["sites"][0]["stack"] if f["function"] == "work"], [2], "line of the plugin")


def test_an_allocation_before_the_c_library_is_ready_stops_no_recording():
    source = harness.scratch() / "early.cpp"
    source.write_text('#include "check.h"\n'
                      'static void early(int, char**, char**) { void* p; CHECK(cudaMalloc(&p, 777)); }\n'
                      '__attribute__((section(".preinit_array"), used)) static void (*entry)(int, char**, char**) = early;\n'
                      'int main() { void* p; CHECK(cudaMalloc(&p, 4096)); }\n')
    traced = harness.trace(harness.build(source))
    sizes = [site["max_live_bytes"] for site in harness.report(*traced.captures)["processes"][0]["sites"]]
    harness.equal(sorted(sizes), [777, 4096], "sites recorded")


def test_libraries_that_take_each_others_place_are_told_apart():
    folder = harness.scratch()
    for name in ("a", "b"):
        source = folder / f"{name}.cpp"
        source.write_text('#include "check.h"\n'
                          f'extern "C" __attribute__((noinline)) void keep_in_{name}() {{ void* p; CHECK(cudaMalloc(&p, 4096)); }}\n'
                          f'extern "C" void work() {{ keep_in_{name}(); asm(""); }}\n')
        harness.build(source, options=["-fPIC", "-shared"], target=folder / f"{name}.so")
    host = folder / "host.cpp"
    host.write_text('#include "check.h"\n#include <dlfcn.h>\n'
                    'int main(int, char** argv) {\n'
                    '  void* first;\n'
                    '  CHECK(cudaMalloc(&first, 1));\n'
                    '  for (int i = 0; i < 20; i++) {\n'
                    '    void* library = dlopen(argv[1 + i % 2], RTLD_NOW);\n'
                    '    reinterpret_cast<void (*)()>(dlsym(library, "work"))();\n'
                    '    dlclose(library);\n'
                    '  }\n}\n')
    traced = harness.trace(harness.build(host), folder / "a.so", folder / "b.so")
    made = {}
    for site in harness.report(*traced.captures)["processes"][0]["sites"]:
        innermost = site["stack"][0]["function"]
        made[innermost] = made.get(innermost, 0) + site["allocations"]
    harness.equal((made.get("keep_in_a"), made.get("keep_in_b")), (10, 10), f"allocations of each library, {made}")


DEEP = """
import torch
kept = []
def deep(n):
    if n: return deep(n - 1)
    kept.append(torch.empty(1024))
for i in range(3): deep(300)
"""


def test_a_stack_that_is_cut_says_so():
    harness.need_torch()
    script = harness.scratch() / "deep.py"
    script.write_text(DEEP)
    traced = harness.trace(harness.TORCH_PYTHON, script, options=["--cpu"])
    sites = harness.report(*traced.captures)["processes"][0]["sites"]
    stack = next(site["stack"] for site in sites if site["end_bytes"] == 3 * 4096)
    harness.equal(sum(f["kind"] == "python" for f in stack), 128, "Python frames kept")
    harness.equal((stack[-1]["kind"], stack[-1]["function"]), ("marker", "further Python frames, not read"), "outermost frame")


harness.main()
