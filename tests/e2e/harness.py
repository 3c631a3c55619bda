"""What the end-to-end tests share: run a program under the real command, read its report, build a program, check a sample.

A test file defines functions test_NAME and ends with harness.main(), which prints one line of TAP for each of them.
"""
import atexit
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD") or ROOT / "build").resolve()
VRAMTRACK = BUILD / "bin/vramtrack"
SIM = BUILD / "sim"
CUDA_HOME = os.environ.get("CUDA_HOME", "/usr/local/cuda")
PROGRAMS = ROOT / "tests/e2e/programs"
SAMPLES = ROOT / "samples"
TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "/usr/bin/python3")  # Debian's: the one that python3-torch serves
TIMEOUT_S = 300


# Whoever started us may have ignored signals (nohup, a shell's background job), and what is ignored stays so in the programs.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)


class Skip(Exception):
    pass


def scratch():
    """A folder that is gone when the test ends."""
    folder = tempfile.mkdtemp(prefix="vramtrack-test.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return pathlib.Path(folder)


def environment(extra=None):
    """The test's own environment with the simulated CUDA in front, and nothing of a vramtrack around it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("VRAMTRACK_") and k != "LD_PRELOAD"}
    env["LD_LIBRARY_PATH"] = str(SIM)
    return {**env, **(extra or {})}


def build(source, runtime="shared", options=(), target=None):
    """Compiles a program against the simulated runtime; answers the executable's path."""
    source = pathlib.Path(source)
    target = target or scratch() / source.stem
    libraries = {"shared": ["-lcudart"], "static": ["-lcudart_static", "-ldl", "-lrt"], "driver": ["-lcudart", "-lcuda"], "none": []}[runtime]
    subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-pthread", f"-I{CUDA_HOME}/include", f"-I{SAMPLES}", *options, str(source),
                    "-o", str(target), f"-L{SIM}", *libraries], check=True)
    return target


def bare(*program, env=None, **options):
    """The program without vramtrack. `out` and `err` are bytes."""
    return subprocess.run([str(word) for word in program], env=environment(env), capture_output=True, timeout=TIMEOUT_S,
                          **options)


class Traced:
    """A finished `vramtrack run`: exit code, output, captures, and the JSON report as a dict (None: there is none)."""

    def __init__(self, done, folder, report_file):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.captures = sorted(glob.glob(f"{folder}/*.vtrk"))
        self.report = json.loads(report_file.read_text()) if report_file.exists() and report_file.stat().st_size else None

    @property
    def process(self):
        """The only process of the report."""
        assert self.report, f"no report; stderr: {self.err.decode(errors='replace')}"
        assert len(self.report["processes"]) == 1, [p["argv"] for p in self.report["processes"]]
        return self.report["processes"][0]


def trace(*program, options=(), output=None, env=None, **popen):
    """Runs the program under `vramtrack run`, its captures in a folder of their own unless `output` names one."""
    folder = output or scratch()
    report_file = scratch() / "report.json"
    command = [VRAMTRACK, "run", *options, "-o", folder, "--format", "json", "--report-file", report_file, "--", *program]
    done = subprocess.run([str(word) for word in command], env=environment(env), capture_output=True, timeout=TIMEOUT_S,
                          **popen)
    return Traced(done, folder, report_file)


def start(*program, folder, env=None, **popen):
    """Starts the program under `vramtrack run` without a report and does not wait for it."""
    command = [VRAMTRACK, "run", "-o", folder, "--format", "none", "--", *program]
    return subprocess.Popen([str(word) for word in command], env=environment(env), **popen)


def report(*captures):
    """`vramtrack report` of captures with all their sites as they are at the end, as a dict."""
    command = [str(VRAMTRACK), "report", "--format", "json", "--at", "end", "--top", "1000000", *map(str, captures)]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, env=environment())
    assert done.returncode == 0, (done.returncode, done.stderr.decode(errors="replace"))
    return json.loads(done.stdout)


def device(process, name="cuda:0"):
    found = [d for d in process["devices"] if d["device"] == name]
    assert len(found) == 1, f"{name} is not once among {[d['device'] for d in process['devices']]}"
    return found[0]


def need_torch():
    if subprocess.run([TORCH_PYTHON, "-c", "import torch"], capture_output=True).returncode:
        raise Skip(f"{TORCH_PYTHON} has no torch (package python3-torch)")


def equal(got, wanted, what):
    assert got == wanted, f"{what}: got {got!r}, wanted {wanted!r}"


# --- samples: what the first comment lines promise ---

class Promise:
    """`expect:` lines, each with the `line:` below it, and the `forbid:` words of a sample."""

    def __init__(self, source):
        self.source, self.expected, self.forbidden = source, [], []
        for text in source.read_text().splitlines()[:12]:
            match = re.match(r"\s*(?:#|//)\s*(expect|forbid|line):\s*(.*)", text)
            if not match:
                continue
            key, value = match[1], match[2].strip()
            if key == "expect":
                self.expected.append([value.split("|"), ""])
            elif key == "line":
                self.expected[-1][1] = value
            else:
                self.forbidden += value.split()

    def broken_by(self, findings):
        """Why the findings break the promise, or None."""
        said = ", ".join(sorted({f"{f['id']}/{f['severity']}" for f in findings})) or "nothing"
        for finding in findings:
            for word in self.forbidden:
                if fits(finding, word):
                    return f"forbidden {word}: {finding['title']}; said {said}"
        for alternatives, line in self.expected:
            good = [f for f in findings if any(fits(f, word.strip()) for word in alternatives)]
            if not good:
                return f"expected {' | '.join(alternatives)}; said {said}"
            if line and not any(names_line(f, self.source, line) for f in good):
                return f"line not named by the first site of {good[0]['id']}: {line}"
        return None


def fits(finding, word):
    name, _, severity = word.partition("/")
    if name in ("leak", "waste", "info"):
        return finding["severity"] == name
    return finding["id"] == name and severity in ("", finding["severity"])


def names_line(finding, source, text):
    lines = source.read_text().splitlines()
    return any(text in lines[number - 1] for number in user_lines(finding, source) if 0 < number <= len(lines))


def user_lines(finding, source):
    """The lines of the sample itself in the stack of the finding's first site, innermost first."""
    stack = finding["sites"][0]["stack"] if finding["sites"] else []
    return [f["line"] for f in stack if os.path.basename(f.get("file") or "") == source.name]


def all_findings(traced):
    assert traced.report, f"no report; stderr: {traced.err.decode(errors='replace')}"
    return [f for process in traced.report["processes"] for f in process["findings"]]


def main():
    """Runs the test_* functions of the script in their order. Exit code 1 if one failed."""
    if not VRAMTRACK.exists():
        print(f"{VRAMTRACK} is not built")
        sys.exit(1)
    module = sys.modules["__main__"]
    wanted = sys.argv[1:]
    failed = False
    for name, function in list(vars(module).items()):
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        try:
            function()
            print(f"ok {name[5:]}", flush=True)
        except Skip as reason:
            print(f"ok {name[5:]} # SKIP {reason}", flush=True)
        except Exception as error:
            failed = True
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)
            print(f"not ok {name[5:]}: {error or type(error).__name__}", flush=True)
    sys.exit(failed)
