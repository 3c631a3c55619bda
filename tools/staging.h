// Keeps captures on a local disk while they are written, when the place they shall go to is on a network filesystem.
//
// A shared mapping of a remote file stalls the traced program on every page it dirties, and may be refused. So the program
// writes locally; the files are copied to their place at intervals, and moved there when the run ends.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace vramtrack {

bool is_network_filesystem(const std::string& directory);

class Staging {
 public:
  // Makes a private directory (0700) under TMPDIR or /var/tmp. `destination` is a directory.
  explicit Staging(std::string destination);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const std::string& directory() const { return directory_; }  // "" if none could be made

  // Copies what is there every `seconds`, on a thread of its own, until finish().
  void copy_at_intervals(int seconds);

  // The last copy. Files of processes that still run stay here too, since those go on writing to them, and files that could not
  // be copied.
  void finish();

  // What the last copy left behind.
  struct Failure {
    std::string staged, why;
  };
  const std::vector<Failure>& failures() const { return failures_; }

  // Where a staged file has gone: itself, if it could not be copied.
  std::string place_of(const std::string& staged) const;

 private:
  std::vector<Failure> copy_all();
  std::error_code copy(const std::string& staged);
  std::string new_place(const std::string& staged) const;

  std::string destination_, directory_;
  std::map<std::string, std::string> places_;  // staged file -> its copy
  std::vector<Failure> failures_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool finished_ = false;
  std::thread copier_;
};

}  // namespace vramtrack
