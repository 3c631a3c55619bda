# A process that never touches CUDA or a hooked allocator leaves no capture, and its output is its own.
import sys

import harness


def leaves_none(*words, **options):
    without, within = harness.bare(*words), harness.trace(*words, **options)
    harness.equal(within.captures, [], "captures")
    harness.equal(within.code, without.returncode, "exit code")
    harness.equal(within.out, without.stdout, "stdout")


def test_true():
    leaves_none("true")


def test_false():
    leaves_none("false")


def test_bash_with_children():
    leaves_none("bash", "-c", "echo one; ls / | wc -l; (exit 3)")


def test_python_without_torch():
    leaves_none(sys.executable, "-c", "import json, threading; print(json.dumps([1, 2]))")


def test_cpu_option_changes_nothing_for_them():
    leaves_none("bash", "-c", "true", options=["--cpu"])


def test_cuda_program_that_allocates_nothing():
    source = harness.scratch() / "idle.cpp"
    source.write_text('#include "check.h"\nint main() { int n; CHECK(cudaGetDeviceCount(&n)); std::printf("%d\\n", n); }\n')
    leaves_none(harness.build(source))


harness.main()
