# Every sample gets the findings its first comment promises, and none it forbids. A static runtime changes nothing; nor does a
# main() whose variables are gone before the interpreter ends.
import harness
from harness import Promise, all_findings, build, need_torch, trace, user_lines


def check(source, traced):
    assert traced.code == 0, f"exit {traced.code}: {traced.err.decode(errors='replace')}"
    why = Promise(source).broken_by(all_findings(traced))
    assert why is None, why


def gist(source, traced):
    return sorted((f["id"], f["severity"], f["bytes"], f["blocks"], user_lines(f, source)) for f in all_findings(traced))


def cuda_sample(source):
    def test():
        shared = trace(build(source, "shared"))
        check(source, shared)
        static = trace(build(source, "static"))
        check(source, static)
        harness.equal(gist(source, static), gist(source, shared), "findings with a static runtime")
    return test


def python_sample(source):
    def test():
        need_torch()
        check(source, trace(harness.TORCH_PYTHON, source, options=["--cpu"], env={"DEVICE": "cpu"}))
    return test


def within_main(source):
    def test():
        lines = [line and "    " + line.replace("global ", "nonlocal ") for line in source.read_text().splitlines()]
        wrapped = harness.scratch() / source.name
        wrapped.write_text("\n".join(["def main():", *lines, "main()", ""]))
        python_sample(wrapped)()
    return test


for path in sorted(harness.SAMPLES.iterdir()):
    if path.suffix == ".cpp":
        globals()[f"test_{path.name}"] = cuda_sample(path)
    elif path.suffix == ".py":
        globals()[f"test_{path.name}"] = python_sample(path)
        globals()[f"test_{path.name}_within_main"] = within_main(path)

harness.main()
