// A program of many manners: `echo` copies stdin to stdout, `exit N`, `abort`, `raise N`, `handler` exits 7 on SIGTERM or SIGINT,
// `cwd` prints the working directory. All of them allocate first.
#include "check.h"

#include <csignal>
#include <cstring>
#include <unistd.h>

int main(int argc, char** argv) {
  void* block;
  CHECK(cudaMalloc(&block, 1 << 20));
  const char* what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  std::fprintf(stderr, "this is %s\n", what);
  if (!std::strcmp(what, "echo")) {
    for (int c; (c = std::getchar()) != EOF;) std::putchar(c);
  } else if (!std::strcmp(what, "exit")) {
    return number;
  } else if (!std::strcmp(what, "abort")) {
    std::abort();
  } else if (!std::strcmp(what, "raise")) {
    std::raise(number);
  } else if (!std::strcmp(what, "cwd")) {
    char path[4096];
    std::puts(getcwd(path, sizeof path));
  } else if (!std::strcmp(what, "handler")) {
    for (int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { _exit(7); });
    std::puts("ready");
    std::fflush(stdout);
    for (;;) pause();
  }
}
