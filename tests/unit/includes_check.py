"""The rooms stay apart: who may include what, by the #include lines."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# (files, what none of them may include, but for these files)
RULES = [
    ("interpose/capture_format.h", r"<(?!cstdint>|cstddef>|atomic>)|\"", ""),
    ("interpose/recorder*", r"cuda|report/", ""),
    ("interpose/spaces*", r"cuda|report/", ""),
    ("interpose/incidents*", r"cuda|report/", ""),
    ("interpose/history*", r"cuda|report/", ""),
    ("interpose/native_stack*", r"cuda|report/", ""),
    ("interpose/*", r"\"report/|\"tools/", ""),
    ("report/**/*", r"<cuda|\"interpose/(?!capture_format)|\"tools/", ""),
    ("report/**/*", r"capture_format\.h", r"report/(capture_reader|process_status|usage_writer).*"),
    ("report/*", r"\"report/(diagnose|render)/", r"report/diagnose/suppressions.*"),
    ("report/diagnose/*", r"\"report/render/", ""),
    ("tools/*", r"<cuda|\"interpose/", ""),
]

failed = False
for files, forbidden, except_for in RULES:
    for path in sorted(ROOT.glob(files)):
        name = str(path.relative_to(ROOT))
        if path.suffix not in (".h", ".cpp", ".def") or (except_for and re.fullmatch(except_for, name)):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r"\s*#\s*include\s*(.*)", line)
            if include and re.search(forbidden, include[1]):
                print(f"{name}:{number}: {line.strip()}")
                failed = True
sys.exit(failed)
