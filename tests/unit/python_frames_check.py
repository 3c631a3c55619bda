"""Does the native reader see the frames that Python itself sees?

usage: pythonX.Y python_frames_check.py python_frames_library.so

Every case compares the reader's chain with sys._getframe's at the same expression: function, file, line and first line of
every frame, once without the GIL (ctypes.CDLL releases it) and once with it (ctypes.PyDLL keeps it). The last line is
`N passed, N failed`.
"""

import asyncio
import ctypes
import functools
import gc
import random
import sys
import threading

released = ctypes.CDLL(sys.argv[1])
held = ctypes.PyDLL(sys.argv[1])
released.library_bench.restype = ctypes.c_double
CALLBACK = ctypes.CFUNCTYPE(None)

counts = {"passed": 0, "failed": 0}
KEEP = 256  # characters of a path the reader keeps at least


def text_of(name):
    return name.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if name.isascii() else "".join(
        "\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in name)


def expected(frame, limit):
    chain = []
    while frame is not None and len(chain) < limit:
        code = frame.f_code
        function = getattr(code, "co_qualname", code.co_name)
        chain.append((text_of(function), text_of(code.co_filename), frame.f_lineno or 0, code.co_firstlineno))
        frame = frame.f_back
    return chain


def read(library, limit=512):
    buffer = ctypes.create_string_buffer(1 << 20)
    truncated = ctypes.c_int()
    # The frame of this very function is dropped: the caller compares its own.
    count = library.library_read(buffer, len(buffer), limit, ctypes.byref(truncated))
    lines = buffer.value.decode("utf-8").split("\n")[:count]
    chain = [(f, p, int(line), int(first)) for f, p, line, first in (entry.split("\x1f") for entry in lines)]
    return chain[1:], bool(truncated.value)


def same(got, want):
    def fits(a, b):
        return a == b or (len(b) > KEEP and (b.startswith(a) or b.endswith(a)) and len(a) >= KEEP)
    return len(got) == len(want) and all(
        fits(g[0], w[0]) and fits(g[1], w[1]) and g[2:] == w[2:] for g, w in zip(got, want))


def judge(name, got, want):
    ok = same(got, want)
    counts["passed" if ok else "failed"] += 1
    if not ok and counts["failed"] < 10:
        print("FAILED", name)
        for g, w in zip(got + [None] * len(want), want + [None] * max(0, len(got) - len(want))):
            print("   ", "  " if g == w else "!=", "read", ascii(g), "expected", ascii(w))


def look(name="?"):
    for library in (released, held):
        got, want = (read(library)[0], expected(sys._getframe(), 512))
        judge(name, got, want)
    return True


# Cases.


def nested_calls():
    def inner():
        def innermost():
            look("nested")
        innermost()
    inner()


def generator_and_comprehensions():
    def generate():
        for i in range(3):
            look("generator")
            yield i
        yield from (look("generator expression") for _ in range(2))
    for _ in generate():
        pass
    [look("list comprehension") for _ in range(2)]
    {look("set comprehension") for _ in range(2)}
    {i: look("dict comprehension") for i in range(2)}
    list(x for x in generate())


def decorated():
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    @decorate
    @decorate
    def function(x, *, y=1):
        look("decorated")
    function(1, y=2)
    functools.partial(function, 3)()
    functools.lru_cache(None)(function)(4)


def recursion(depth=90):
    if depth == 0:
        return look("recursion")
    return recursion(depth - 1)


def lambdas():
    (lambda: look("lambda"))()
    (lambda f: f())(lambda: look("lambda in lambda"))


def class_bodies():
    class Outer:
        look("class body")

        class Inner:
            look("inner class body")

            def method(self):
                return look("method")

            @property
            def attribute(self):
                return look("property")

            @staticmethod
            def still():
                return look("static method")

            @classmethod
            def of_class(cls):
                return look("class method")

            def __repr__(self):
                look("repr from C")
                return ""

            def __lt__(self, other):
                look("comparison from C")
                return False

            def __del__(self):
                look("finaliser")
    one = Outer.Inner()
    one.method()
    one.attribute
    one.still()
    one.of_class()
    repr(one)
    sorted([one, Outer.Inner()])
    del one
    gc.collect()


def callbacks_from_c():
    sorted([3, 1, 2], key=lambda _: look("sorted key"))
    list(map(lambda _: look("map"), [1]))
    list(filter(lambda _: look("filter"), [1]))
    max([1, 2], key=lambda _: look("max key"))
    released.library_call(CALLBACK(lambda: look("callback without the GIL") and None))
    held.library_call(CALLBACK(lambda: look("callback with the GIL") and None))


def multi_line_expressions():
    values = [
        look(
            "multi-line"
        ),
        1 +
        look("continued"
             ),
    ]
    return (values
            and look("last")
            and "".join(
                str(look(n))
                for n in ["joined"]))


def executed_code():
    names = {"look": look}
    exec(compile("look('exec')\n\n\ndef f():\n    look('exec f')\nf()\n", "<made up>", "exec"), names)
    eval("look('eval')", names)
    exec("\n" * 5000 + "x = 1\nlook('large line')\n" + "\n" * 300 + "look('larger')", names)
    exec("def f(x):\n" + "".join("    x = [x, %d,\n   \n\n 1]; look('long function') if x is None or %d %% 40 == 0 else 0\n"
                                   % (i, i) for i in range(400)) + "f(2)\n", names)
    exec("def f():\n  for i in range(3):\n    if i:\n      look('a')\n    else:\n      look('b')\n"
         "  look('c')\nf()", names)


def strange_names():
    for name in ["été", "功能", "ab\u0101", "𝒳𝒴", "имя", "ÿ"]:
        for path in ["/tmp/é/x.py", "/tmp/目录/模块.py", "/tmp/😀.py", "/tmp/undecodable\udcff.py",
                     "/x" * 2000, "é" * 3000, "😀" * 1500]:
            source = "def {0}():\n    look('strange')\n{0}()\n".format(name)
            exec(compile(source, path, "exec"), {"look": look})
    name = "n" * 2000
    exec("def {0}():\n    look('long name')\n{0}()\n".format(name), {"look": look})

    class Name(str):
        pass
    # Subclasses of str are stored in another form.
    code = look.__code__
    if hasattr(code, "replace"):
        def function():
            return look("str subclass")
        function.__code__ = function.__code__.replace(co_filename=Name("/a/legacy/é.py"))
        function()


def asynchronous():
    async def innermost():
        await asyncio.sleep(0)
        look("coroutine")

    async def async_generator():
        yield look("async generator")
        await innermost()
        yield look("async generator again")

    class Context:
        async def __aenter__(self):
            look("aenter")

        async def __aexit__(self, *_):
            look("aexit")

    async def main():
        async with Context():
            await asyncio.gather(innermost(), innermost())
        async for _ in async_generator():
            look("async for")
        [x async for x in async_generator()]
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()


def exceptions():
    try:
        try:
            raise ValueError
        except ValueError:
            look("except")
            raise KeyError from None
        finally:
            look("finally")
    except KeyError:
        look("except again")
    with contextlib_like():
        look("with")


class contextlib_like:
    def __enter__(self):
        look("enter")

    def __exit__(self, *_):
        look("exit")


def threads():
    def work(depth):
        if depth:
            work(depth - 1)
        for _ in range(20):
            look("thread")
    running = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def codes_that_die():
    """The next code object often gets the address of the last, and its strings theirs."""
    before = released.library_misses()
    for i in range(4000):
        names = {"look": look}
        line = i % 7
        source = "\n" * line + "def f%04d():\n" % i + "\n" * (i % 3) + "    look('dead code')\nf%04d()\n" % i
        exec(compile(source, "/tmp/f%04d.py" % (i % 11), "exec"), names)
    assert released.library_misses() > before
    for i in range(1500):
        # The same names and sizes, other lines: only the line table's content differs.
        source = "def f():\n    x = 1" + "\n" * (1 + i % 5) + "    look('same names')\n" + "f()\n"
        exec(compile(source, "<string>", "exec"), {"look": look})


def random_shapes():
    rng = random.Random(7)
    shapes = []

    def descend(depth):
        if depth == 0:
            return look("random shape")
        return rng.choice(shapes)(depth - 1)

    def by_generator(depth):
        return next(descend(depth) for _ in range(1))

    def by_generator_function(depth):
        def generate():
            yield descend(depth)
        return [x for x in generate()]

    def by_sort(depth):
        return sorted([1], key=lambda _: descend(depth) and 1)

    def by_exec(depth):
        exec("\n" * rng.randrange(9) + "descend(depth)", {"descend": descend, "depth": depth})

    def by_class(depth):
        class Body:
            value = descend(depth)
        return Body

    def by_ctypes(depth):
        released.library_call(CALLBACK(lambda: descend(depth) and None))

    def by_coroutine(depth):
        async def run():
            return descend(depth)
        try:
            run().send(None)
        except StopIteration:
            pass

    def by_keywords(depth, **kwargs):
        return (lambda *, d, **_: descend(d))(d=depth,
                                              **kwargs)
    shapes.extend([descend, by_generator, by_generator_function, by_sort, by_exec, by_class, by_ctypes, by_coroutine,
                   by_keywords])
    for _ in range(600):
        descend(rng.randrange(1, 14))


def cut_chains():
    def descend(depth):
        if depth:
            return descend(depth - 1)
        for limit in (1, 2, 5, 20):
            got, want = (read(released, limit), expected(sys._getframe(), limit - 1))
            judge("cut", got[0], want)
            judge("cut is said", [], [] if got[1] else [0])
    descend(30)


def without_a_thread_state():
    """A thread that Python never saw has no frames, and asking does no harm."""
    judge("foreign thread", [], [0] * released.library_read_in_foreign_thread())


class LastWords:
    """Finalisers run while the interpreter goes away; there are no frames then, and asking does no harm."""

    def __init__(self):
        self.read = read

    def __del__(self):
        self.read(released)


def bench():
    def descend(depth):
        return descend(depth - 1) if depth else released.library_bench(1000)
    frames = len(expected(sys._getframe(), 512))
    taken = descend(19 - frames)
    print("python %d.%d.%d: %.0f ns for 20 frames, %.1f ns a frame" % (*sys.version_info[:3], taken, taken / 20))


def main():
    state = released.library_find()
    if state != 1:
        print("python state %d: frames are not read" % state)
        return 1
    assert released.library_version() == sys.hexversion, hex(released.library_version())
    assert released.library_has_code_range()
    assert held.library_check() == 1, "the self check failed"

    def deep_check(depth):
        return deep_check(depth - 1) if depth else held.library_check()
    assert deep_check(40) == 1
    assert list(deep_check(3) for _ in range(1)) == [1]

    for case in (nested_calls, generator_and_comprehensions, decorated, recursion, lambdas, class_bodies, callbacks_from_c,
                 multi_line_expressions, executed_code, strange_names, asynchronous, exceptions, threads, codes_that_die,
                 random_shapes, cut_chains, without_a_thread_state):
        case()
    bench()
    print("%d passed, %d failed" % (counts["passed"], counts["failed"]))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    last_words = LastWords()
    sleeper = threading.Thread(target=threading.Event().wait, daemon=True)
    sleeper.start()
    sys.exit(main())
