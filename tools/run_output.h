// Where a run's captures go, and which they were.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "report/capture_reader.h"
#include "tools/staging.h"

namespace vramtrack {

class RunOutput {
 public:
  // `wanted` as --output was typed: a directory, a pattern, or "" for the default.
  explicit RunOutput(const std::string& wanted);
  ~RunOutput() { clean_up(); }
  RunOutput(const RunOutput&) = delete;
  RunOutput& operator=(const RunOutput&) = delete;

  const std::string& error() const { return error_; }        // why nothing can be recorded, "" = it can
  // What traced processes had to say, after collect(): why a capture could not be made, or ends before its program.
  const std::vector<std::string>& messages() const { return messages_; }
  const std::string& pattern() const { return pattern_; }    // absolute, for the library
  const std::string& manifest() const { return manifest_; }  // the file each traced process adds its capture's path to
  uint64_t run_id() const { return run_id_; }

  void copy_at_intervals(int seconds);  // where captures are staged; see staging.h

  // The captures of the run, at their final places. The one of process `pid` learns how it ended.
  std::vector<std::string> collect(pid_t pid, ProcessEnd);

  void clean_up();  // also for who leaves by a signal, when no destructor runs

 private:
  std::string pattern_, manifest_, error_;
  uint64_t run_id_ = 0;
  std::vector<std::string> messages_;
  std::unique_ptr<Staging> staging_;  // null: captures are written where they belong
};

}  // namespace vramtrack
