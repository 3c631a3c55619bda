# The capture of a running process can be reported at any time, and the report says that it is running.
import subprocess

import harness

MIB = 1 << 20


def test_running_then_ended():
    folder = harness.scratch()
    process = harness.start(harness.build(harness.PROGRAMS / "waits.cpp"), folder=folder, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    harness.equal(process.stdout.readline(), b"ready\n", "stdout")
    captures = list(folder.glob("*.vtrk"))
    harness.equal(len(captures), 1, "captures")

    running = harness.report(captures[0])["processes"][0]
    harness.equal(running["ended"], "running", "ended")
    harness.equal(harness.device(running)["ledger"]["live_bytes"], 8 * MIB, "live bytes")
    harness.equal(sorted((s["blocks"], s["bytes"]) for s in running["sites"]), [(1, 3 * MIB), (5, 5 * MIB)], "sites")

    process.stdin.close()
    harness.equal(process.wait(60), 0, "exit code")
    harness.equal(harness.report(captures[0])["processes"][0]["ended"], "exit:0", "ended")


harness.main()
