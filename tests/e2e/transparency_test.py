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
