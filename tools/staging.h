// Keeps captures on a local disk while they are written, when the place they shall go to is on a network filesystem.
//
// A shared mapping of a remote file stalls the traced program on every page it dirties, and may be refused. So the program
// writes locally; the files are copied to their place at intervals, and moved there when the run ends.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

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

  // The last copy. Files of processes that still run stay here too, since those go on writing to them.
  void finish();

  // Where a staged file has gone.
  std::string place_of(const std::string& staged) const;

 private:
  void copy_all();
  bool copy(const std::string& staged);
  std::string new_place(const std::string& staged) const;

  std::string destination_, directory_;
  std::map<std::string, std::string> places_;  // staged file -> its copy
  std::mutex mutex_;
  std::condition_variable wake_;
  bool finished_ = false;
  std::thread copier_;
};

}  // namespace vramtrack
