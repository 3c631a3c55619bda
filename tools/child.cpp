// Runs a program as if vramtrack were not there: same standard streams, directory, signals; its end is told.
#include "tools/child.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace vramtrack {
namespace {

constexpr std::array kForwarded = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

volatile pid_t forward_to = 0;

// The terminal sends its signals to the whole foreground group, so the child has them already: only what another process
// sent to us alone goes on.
void forward(int signal, siginfo_t* info, void*) {
  int saved_errno = errno;
  if (info->si_code <= 0 && forward_to > 0) kill(forward_to, signal);
  errno = saved_errno;
}

// Forwards signals while it lives. Signals that were ignored stay ignored, in us and in the child (nohup).
class Forwarding {
 public:
  explicit Forwarding(pid_t child) {
    forward_to = child;
    struct sigaction action = {};
    action.sa_sigaction = forward;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (size_t i = 0; i < kForwarded.size(); ++i) {
      sigaction(kForwarded[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kForwarded[i], &action, nullptr);
    }
  }
  ~Forwarding() {
    forward_to = 0;
    for (size_t i = 0; i < kForwarded.size(); ++i) sigaction(kForwarded[i], &before_[i], nullptr);
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

 private:
  std::array<struct sigaction, kForwarded.size()> before_;
};

[[noreturn]] void become(const std::vector<std::string>& command, int failure_pipe) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  int error = errno;
  (void)!write(failure_pipe, &error, sizeof(error));
  _exit(127);
}

ProcessEnd wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {true, WTERMSIG(status)};
  return {false, WEXITSTATUS(status)};
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& command, const std::function<void()>& prepare) {
  ChildResult result;
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return {0, errno, {}};

  // No signal may arrive between fork and the moment we know whom to forward it to.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  result.pid = fork();
  if (result.pid == 0) {
    prepare();
    sigprocmask(SIG_SETMASK, &before, nullptr);
    become(command, failure[1]);
  }
  int fork_errno = errno;
  close(failure[1]);
  if (result.pid > 0) {
    Forwarding forwarding(result.pid);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    ssize_t got;
    do {
      got = read(failure[0], &result.exec_errno, sizeof(result.exec_errno));  // returns at exec, which closes the other end
    } while (got < 0 && errno == EINTR);
    result.end = wait_for(result.pid);
  } else {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    result.exec_errno = fork_errno;
  }
  close(failure[0]);
  return result;
}

void end_like(ProcessEnd end) {
  if (!end.by_signal) std::exit(end.code);
  rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(end.code, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, end.code);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  kill(getpid(), end.code);
  std::_Exit(128 + end.code);  // a signal that does not kill
}

}  // namespace vramtrack
