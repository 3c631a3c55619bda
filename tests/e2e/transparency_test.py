# A program under `vramtrack run` keeps its stdin, stdout, stderr, working directory, signals, exit code or death by signal.
import os
import signal
import subprocess

import harness

PROGRAM = harness.build(harness.PROGRAMS / "behaves.cpp")


def same(*words, **options):
    program = [PROGRAM, *words]
    without, within = harness.bare(*program, **options), harness.trace(*program, **options)
    harness.equal(within.code, without.returncode, "exit code")
    harness.equal(within.out, without.stdout, "stdout")
    assert without.stderr in within.err, f"stderr {without.stderr!r} is not in {within.err!r}"
    return within


def test_stdin_and_stdout():
    same("echo", input=b"one\ntwo\0three\n" * 5000)


def test_empty_stdin():
    same("echo", stdin=subprocess.DEVNULL)


def test_exit_code():
    for code in (0, 1, 77, 255):
        same("exit", str(code))


def test_death_by_signal():
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT):
        within = same("raise", str(int(number)))
        harness.equal(within.code, -number, "exit code")


def test_abort():
    same("abort")


def test_working_directory():
    folder = harness.scratch()
    harness.equal(same("cwd", cwd=folder).out, f"{folder}\n".encode(), "stdout")


def test_arguments_are_passed_untouched():
    script = 'printf "[%s]" "$@"'
    words = ["sh", "-c", script, "sh", "a b", "", "--format", "-o", "*", "é"]
    harness.equal(harness.trace(*words).out, harness.bare(*words).stdout, "stdout")


def test_descriptors_are_the_programs_own():
    # Below a frame without unwind tables, addresses are checked: not by means of descriptors that the program may close and reuse.
    program, prefix = harness.build(harness.PROGRAMS / "jit_frames.cpp"), harness.scratch() / "file"
    without, within = harness.bare(program, prefix), harness.trace(program, prefix)
    harness.equal((within.code, within.out), (0, without.stdout), "exit code, what the program says of its files")


def test_plugins_are_unloaded():
    # A library that called us may go again; one whose unloading we prevented would be seen by its destructor, and by its absence.
    folder = harness.scratch()
    plugin, host = folder / "plugin.cpp", folder / "host.cpp"
    plugin.write_text('#include "check.h"\n'
                      'extern "C" void work() { void* p; CHECK(cudaMalloc(&p, 4096)); CHECK(cudaFree(p)); }\n'
                      '[[gnu::destructor]] static void goes() { std::puts("plugin goes"); }\n')
    harness.build(plugin, options=["-fPIC", "-shared", "-fno-gnu-unique"], target=folder / "plugin.so")
    host.write_text('#include <cstdio>\n#include <dlfcn.h>\n'
                    'int main(int, char** argv) {\n'
                    '  for (int i = 0; i < 2; i++) {\n'
                    '    void* plugin = dlopen(argv[1], RTLD_NOW);\n'
                    '    reinterpret_cast<void (*)()>(dlsym(plugin, "work"))();\n'
                    '    dlclose(plugin);\n'
                    '    std::puts(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? "still there" : "gone");\n'
                    '  }\n}\n')
    without, within = (run(harness.build(host, "none"), folder / "plugin.so") for run in (harness.bare, harness.trace))
    harness.equal(without.stdout, b"plugin goes\ngone\n" * 2, "stdout of the program alone")
    harness.equal(within.out, without.stdout, "stdout")
    harness.equal(harness.device(within.process)["ledger"]["live_bytes"], 0, "live bytes")


def test_a_plugin_calls_the_runtime_that_it_brought():
    folder = harness.scratch()
    plugin, host = folder / "plugin.cpp", folder / "host.cpp"
    plugin.write_text('#include "check.h"\nextern "C" int work() { void* p; CHECK(cudaMalloc(&p, 4096)); return 0; }\n')
    harness.build(plugin, "static", options=["-fPIC", "-shared"], target=folder / "plugin.so")
    host.write_text('#include <dlfcn.h>\nint main(int, char** argv) {\n'
                    '  return reinterpret_cast<int (*)()>(dlsym(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "work"))();\n}\n')
    traced = harness.trace(harness.build(host, "none"), folder / "plugin.so")
    harness.equal((traced.code, traced.err.count(b"cudaMalloc")), (0, 0), "exit code, complaints")
    harness.equal(harness.device(traced.process)["ledger"]["live_bytes"], 4096, "live bytes")


def test_signals_reach_the_program():
    for number in (signal.SIGTERM, signal.SIGINT):
        process = harness.start(PROGRAM, "handler", folder=harness.scratch(), stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, start_new_session=True)
        harness.equal(process.stdout.readline(), b"ready\n", "stdout")
        process.send_signal(number)
        harness.equal(process.wait(60), 7, f"exit code of the program's own handler of signal {int(number)}")


def test_interrupt_from_the_terminal():
    process = harness.start(PROGRAM, "handler", folder=harness.scratch(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            start_new_session=True)
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    harness.equal(process.wait(60), 7, "exit code")


def test_missing_program():
    harness.equal(harness.trace("/nonexistent/program").code, 127, "exit code")
    harness.equal(harness.trace("/etc/passwd").code, 126, "exit code")


harness.main()
