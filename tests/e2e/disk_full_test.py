# A capture that cannot be written costs the program nothing: it ends as ever, and stderr has one line that says why.
import contextlib
import os
import resource
import subprocess

import harness

PROGRAM = harness.build(harness.PROGRAMS / "many_sites.cpp")


def untouched(folder, **options):
    """Runs the program with captures in `folder`."""
    command = [harness.VRAMTRACK, "run", "-o", folder, "--format", "none", "--", PROGRAM]
    done = subprocess.run([str(word) for word in command], env=harness.environment(), capture_output=True, text=True,
                          timeout=harness.TIMEOUT_S, **options)
    harness.equal(done.returncode, 0, f"exit code ({done.stderr.strip()})")
    harness.equal(done.stdout, "10000 blocks\n", "stdout")
    said = [line for line in done.stderr.splitlines() if not line.startswith("vramtrack: recorded in ")]
    assert len(said) == 1 and said[0].startswith("vramtrack: "), f"stderr: {said}"


def cut_short(folder):
    """Whatever capture there is can be read and says that recording stopped."""
    for capture in folder.glob("*.vtrk"):
        if capture.stat().st_size == 0:
            continue
        process = harness.report(capture)["processes"][0]
        assert not process["complete"] and process["lost"]["reason"], process["lost"]


@contextlib.contextmanager
def mounted(options):
    folder = harness.scratch()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True).returncode:
        raise harness.Skip("may not mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=False)


# Tells the command that FAR is on NFS, so that captures are written on a local disk first.
NFS = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
extern "C" int statfs(const char* path, struct statfs* status) {
  static auto real = reinterpret_cast<int (*)(const char*, struct statfs*)>(dlsym(RTLD_NEXT, "statfs"));
  int result = real(path, status);
  const char* far = getenv("FAR");
  if (result == 0 && far && !strcmp(path, far)) status->f_type = 0x6969;
  return result;
}
"""


def full_disk(size):
    with mounted(f"size={size}") as folder:
        untouched(folder)
        cut_short(folder)


def test_disk_full_at_once():
    full_disk("4k")


def test_disk_full_at_64k():
    full_disk("64k")


def test_disk_full_at_512k():
    full_disk("512k")


def test_disk_full_at_1m():
    full_disk("1m")


def test_disk_full_under_other_files():
    with mounted("size=4m") as folder:
        (folder / "other").write_bytes(b"x" * (3 << 20))
        untouched(folder)
        cut_short(folder)


def test_file_size_limit():
    for limit in (4 << 10, 128 << 10, 1 << 20):
        folder = harness.scratch()
        untouched(folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        cut_short(folder)


def test_read_only_folder():
    if os.geteuid() == 0:
        with mounted("ro,size=1m") as folder:
            untouched(folder)
    else:
        folder = harness.scratch()
        folder.chmod(0o555)
        untouched(folder)


def test_a_folder_that_cannot_be_made():
    untouched("/proc/no/such/folder")


def test_a_missing_folder_is_made():
    traced = harness.trace(PROGRAM, output=harness.scratch() / "no/such/folder")
    harness.equal((traced.code, len(traced.captures)), (0, 1), "exit code and captures")


def test_a_full_far_disk_leaves_the_whole_capture_on_the_near_one():
    source, near = harness.scratch() / "nfs.cpp", harness.scratch()
    source.write_text(NFS)
    shim = harness.build(source, "none", ("-shared", "-fPIC", "-ldl"), source.with_suffix(".so"))
    with mounted("size=256k") as far:
        command = [str(word) for word in (harness.VRAMTRACK, "run", "-o", far, "--format", "none", "--", PROGRAM)]
        env = harness.environment({"LD_PRELOAD": str(shim), "FAR": str(far), "TMPDIR": str(near)})
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        harness.equal((done.returncode, list(far.iterdir())), (0, []), "exit code and what is on the far disk")
    captures = list(near.rglob("*.vtrk"))
    assert len(captures) == 1, captures
    said = [line for line in done.stderr.splitlines() if "cannot be copied to its place" in line]
    assert len(said) == 1 and str(captures[0]) in said[0], done.stderr
    assert harness.report(captures[0])["processes"][0]["complete"]


harness.main()
