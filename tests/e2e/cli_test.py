# The command line: transparent to the program, kind to who mistypes.
import os
import pty
import shutil
import signal
import subprocess
import sys

import harness
from harness import equal, scratch

V = str(harness.VRAMTRACK)


def vramtrack(*words, **options):
    return subprocess.run([V, *map(str, words)], capture_output=True, env=harness.environment(), timeout=60, **options)


def one_line(done, code, *parts):
    text = done.stderr.decode()
    equal(done.returncode, code, f"exit code, stderr {text!r}")
    equal(text.count("\n"), 1, f"lines in {text!r}")
    assert text.startswith("vramtrack: "), text
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"


def test_exit_code_is_the_programs():
    for code in (0, 1, 2, 77, 255):
        equal(vramtrack("run", "-q", "sh", "-c", f"exit {code}").returncode, code, "exit code")


def test_death_by_signal_is_the_programs():
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV):
        equal(vramtrack("run", "-q", "sh", "-c", f"kill -{int(number)} $$").returncode, -number, "signal")


def test_standard_streams_pass_through():
    done = vramtrack("run", "-q", "--", "sh", "-c", "cat; echo err >&2", input=b"piped\0bytes")
    equal((done.stdout, done.stderr), (b"piped\0bytes", b"err\n"), "streams")


def test_options_after_the_program_are_the_programs():
    for dashes in ([], ["--"]):
        equal(vramtrack("run", "-q", *dashes, "echo", "-q", "--format", "x", "--", "-o").stdout, b"-q --format x -- -o\n", "output")


def test_program_named_like_a_subcommand():
    folder = scratch()
    (folder / "report").write_text("#!/bin/sh\necho mine\n")
    (folder / "report").chmod(0o755)
    done = subprocess.run([V, "run", "-q", "report"], capture_output=True,
                          env={**harness.environment(), "PATH": f"{folder}:{os.environ['PATH']}"})
    equal(done.stdout, b"mine\n", "output")


def test_values_that_make_no_sense_are_named():
    for value in ("1X", "", "-4", "99999999999999999999"):
        one_line(vramtrack("report", f"--min-bytes={value}", "x.vtrk"), 2, "--min-bytes", "K, M or G")
    one_line(vramtrack("report", "--top=-3", "x.vtrk"), 2, "--top")
    one_line(vramtrack("report", "--min-bytes=4k", "--top=3", "x.vtrk"), 2, "x.vtrk: cannot be opened")


def test_doctor_says_what_can_be_traced():
    done = vramtrack("doctor", "/usr/bin/env")
    equal(done.returncode, 0, f"exit code, {done.stdout}")
    lines = done.stdout.decode().splitlines()
    assert any(line.startswith("ok    the CUDA driver: CUDA 13.0, 1 device") for line in lines), lines
    assert "ok    /usr/bin/env: can be traced" in lines, lines
    source = scratch() / "static.c"
    source.write_text("int main() { return 0; }\n")
    subprocess.run(["gcc", "-static", source, "-o", source.with_suffix("")], check=True)
    done = vramtrack("doctor", source.with_suffix(""))
    equal(done.returncode, 1, "exit code for a program that cannot be")
    assert b"cannot be traced: it is statically linked" in done.stdout, done.stdout
    equal(vramtrack("doctor", "no-such-program").returncode, 1, "exit code for none")


def test_missing_program_is_127_and_not_executable_is_126():
    one_line(vramtrack("run", "no-such-program"), 127, "no-such-program")
    one_line(vramtrack("run", "/etc/passwd"), 126, "/etc/passwd")


def forwarded(number, expected):
    script = f"trap 'exit 41' {int(number)}; echo ready; while :; do sleep 0.05; done"
    child = subprocess.Popen([V, "run", "-q", "bash", "-c", script], stdout=subprocess.PIPE, env=harness.environment())
    child.stdout.readline()
    child.send_signal(number)
    equal(child.wait(timeout=30), expected, f"exit code after signal {int(number)}")


def test_signals_go_on_to_the_program():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        forwarded(number, 41)


INTERRUPTS = """
import signal, sys, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
print("ready", flush=True)
end = time.monotonic() + 10
while not seen and time.monotonic() < end: time.sleep(0.01)
time.sleep(0.3)  # a second one would come right behind
sys.exit(len(seen))
"""


def test_terminals_interrupt_reaches_the_program_once():
    # A terminal sends SIGINT to the whole group; the program handles it, vramtrack waits for it.
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(V, [V, "run", "-q", sys.executable, "-c", INTERRUPTS], harness.environment())
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    equal(os.waitstatus_to_exitcode(status), 1, "interrupts seen")


def test_ignored_signals_stay_ignored():
    done = subprocess.run(["sh", "-c", f"trap '' HUP; exec {V} run -q sh -c 'kill -HUP $$; exit 5'"], env=harness.environment())
    equal(done.returncode, 5, "exit code")


def test_static_program_runs_and_is_told():
    folder = scratch()
    (folder / "static.c").write_text("int main(void) { return 9; }\n")
    subprocess.run(["gcc", "-static", "-o", folder / "static", folder / "static.c"], check=True)
    done = vramtrack("run", folder / "static")
    equal(done.returncode, 9, "exit code")
    assert b"statically linked" in done.stderr, done.stderr


def test_set_uid_program_is_told():
    if os.geteuid() != 0:
        raise harness.Skip("making a set-uid program of another user needs root")
    program = scratch() / "suid"
    shutil.copy("/bin/true", program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    done = vramtrack("run", program)
    equal(done.returncode, 0, "exit code")
    assert b"set-uid" in done.stderr, done.stderr


def test_program_that_records_nothing_is_told_why():
    one_line(vramtrack("run", "true"), 0, "no CUDA or PyTorch allocations were seen")


def test_quiet_run_says_nothing():
    equal(vramtrack("run", "-q", "true").stderr, b"", "stderr")


def test_nothing_is_left_behind():
    folder = scratch()
    env = {**harness.environment(), "TMPDIR": str(folder)}
    subprocess.run([V, "run", "-q", "sh", "-c", "kill -9 $$"], env=env)
    subprocess.run([V, "run", "-q", "no-such-program"], env=env, stderr=subprocess.DEVNULL)
    equal(os.listdir(folder), [], "files in TMPDIR")


def test_bad_usage_is_one_line_with_a_hint():
    one_line(vramtrack("run", "--bogus", "true"), 2, "--bogus", "--help")
    one_line(vramtrack("run"), 2, "--help")
    one_line(vramtrack("report", "--format", "xml", "x.vtrk"), 2, "xml", "--help")
    one_line(vramtrack("report"), 2, "--help")
    one_line(vramtrack("python3", "train.py"), 2, "python3 is no command", "vramtrack run python3", "--help")


def test_output_that_cannot_be_written_keeps_no_program_from_running():
    done = vramtrack("run", "-o", "/proc/no/such/folder/%p.vtrk", "sh", "-c", "echo ran; exit 3")
    one_line(done, 3, "/proc/no/such/folder", "runs unrecorded")
    equal(done.stdout, b"ran\n", "output")


def test_foreign_files_are_named_with_the_reason():
    folder = scratch()
    (folder / "short.vtrk").write_bytes(b"VRAMTRK\n")
    (folder / "empty.vtrk").write_bytes(b"")
    one_line(vramtrack("report", "/etc/passwd"), 2, "/etc/passwd: not a vramtrack capture")
    one_line(vramtrack("report", folder / "short.vtrk"), 2, "short.vtrk: not a whole capture")
    one_line(vramtrack("report", folder / "empty.vtrk"), 2, "empty.vtrk", "empty")
    one_line(vramtrack("report", folder / "none.vtrk"), 2, "none.vtrk: cannot be opened")
    one_line(vramtrack("report", scratch()), 2, "no captures")


def test_help_and_version():
    for words in (["--help"], ["run", "--help"], ["report", "--help"], ["--version"]):
        done = vramtrack(*words)
        equal((done.returncode, done.stderr), (0, b""), f"{words}")
        assert done.stdout


harness.main()
