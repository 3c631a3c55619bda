# A process killed with -9 in the middle of its work leaves a readable capture that holds exactly what the process held.
import mmap
import os
import signal
import struct
import time

import harness


class Oracle:
    """The page that programs/oracle.h keeps."""

    def __init__(self, path):
        self.path = path

    def read(self):
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 40, access=mmap.ACCESS_READ) as page:
            now_bytes, now_blocks, next_bytes, next_blocks, operations = struct.unpack("5Q", page[:40])
        return [(now_bytes, now_blocks), (next_bytes, next_blocks)], operations

    def wait_for(self, operations, process):
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path) or os.path.getsize(self.path) < 40 or self.read()[1] < operations:
            assert process.poll() is None, "the program ended by itself"
            assert time.monotonic() < deadline, "the program does nothing"
            time.sleep(0.01)


def killed_after(operations):
    folder = harness.scratch()
    oracle = Oracle(folder / "oracle")
    process = harness.start(harness.build(harness.PROGRAMS / "until_killed.cpp"), oracle.path, folder=folder)
    oracle.wait_for(operations, process)
    captures = list(folder.glob("*.vtrk"))
    harness.equal(len(captures), 1, "captures")
    pid = harness.report(captures[0])["processes"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    harness.equal(process.wait(60), -signal.SIGKILL, "vramtrack run ends as the program did")

    reported = harness.report(captures[0])["processes"][0]
    harness.equal(reported["pid"], pid, "pid")
    blocks = sum(site["blocks"] for site in reported["sites"])
    live = (harness.device(reported)["ledger"]["live_bytes"], blocks)
    truth, _ = oracle.read()
    assert live in truth, f"live (bytes, blocks): report {live}, program {truth}"
    assert reported["ended"] in ("signal:9", "unknown"), reported["ended"]


def test_killed_at_once():
    killed_after(1)


def test_killed_after_some_work():
    killed_after(2000)


def test_killed_after_much_work():
    killed_after(200_000)


harness.main()
