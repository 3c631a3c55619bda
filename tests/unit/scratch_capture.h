// A recorder with its capture in a temporary file, for tests that drive the writer directly.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unistd.h>

#include "interpose/capture_file.h"
#include "interpose/interner.h"
#include "interpose/interner_tables.h"
#include "interpose/recorder.h"

namespace vramtrack {

class ScratchCapture {
 public:
  ScratchCapture() {
    char directory[] = "/tmp/vramtrack-test-XXXXXX";
    directory_ = mkdtemp(directory);
    path_ = directory_ + "/test.vtrk";
    state_ = std::make_unique<State>();
    created_ = create_capture_file(state_->file, path_.c_str());
    state_->interner.file = &state_->file;
    state_->recorder.file = &state_->file;
    state_->recorder.interner = &state_->interner;
  }
  ~ScratchCapture() {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }

  bool created() const { return created_; }
  const std::string& path() const { return path_; }
  CaptureFile& file() { return state_->file; }
  Interner& interner() { return state_->interner; }
  Recorder& recorder() { return state_->recorder; }
  format::Header& header() { return *state_->file.header; }

  template <class Record>
  Record& at(format::TableId table, uint64_t index) {
    return record<Record>(state_->file, table, index);
  }
  uint64_t count(format::TableId table) { return header().tables[table].count.load(); }

 private:
  struct State {
    CaptureFile file{};
    Interner interner{};
    Recorder recorder{};
  };
  std::string directory_, path_;
  std::unique_ptr<State> state_;
  bool created_ = false;
};

}  // namespace vramtrack
