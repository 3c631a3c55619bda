# The preloaded library needs libc alone, exports what exports.map says and no more.
import re
import subprocess

import harness

LIBRARY = harness.BUILD / "lib/libvramtrack.so"


def output(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def test_needs_libc_alone():
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", LIBRARY))
    strangers = [name for name in needed if not re.match(r"libc\.so|ld-linux", name)]
    harness.equal(strangers, [], "NEEDED besides libc and the loader")


def test_exports_what_the_map_says():
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", (harness.BUILD / "exports.map").read_text(), flags=re.S)
    patterns = re.findall(r"[\w*?]+(?=\s*;)", text.split("local:")[0])
    allowed = [re.compile(re.escape(p).replace(r"\*", ".*").replace(r"\?", ".")) for p in patterns]
    exported = [line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    strangers = [name for name in exported if not any(pattern.fullmatch(name) for pattern in allowed)]
    harness.equal(strangers, [], "exported beyond hooks.def")
    assert "dlsym" in exported, exported


def test_unwind_tables_and_no_exceptions():
    sections = output("readelf", "-SW", LIBRARY)
    assert ".eh_frame" in sections, "no unwind tables: the program's exceptions could not pass"
    harness.equal(".gcc_except_table" in sections, False, "landing pads")


harness.main()
