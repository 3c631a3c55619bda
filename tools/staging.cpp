// Keeps captures on a local disk while they are written, when the place they shall go to is on a network filesystem.
#include "tools/staging.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "report/capture_reader.h"

namespace vramtrack {
namespace {

namespace fs = std::filesystem;

// From linux/magic.h and the filesystems' own sources; not all are in the kernel's header.
constexpr std::array<uint32_t, 12> kNetworkFilesystems = {
    0x6969,      // NFS
    0x517b,      // SMB
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB2
    0x0bd00bd0,  // Lustre
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS
    0x65735546,  // FUSE: sshfs, GlusterFS, s3fs, ...
    0x00c36400,  // Ceph
    0x5346414f,  // AFS
    0x01021997,  // 9p
    0xaad7aaea,  // Panasas
};

bool is_running(const std::string& capture) {
  auto read = read_capture(capture);
  auto* heap = std::get_if<Heap>(&read);
  return heap != nullptr && heap->process.ended == "running";
}

}  // namespace

bool is_network_filesystem(const std::string& directory) {
  struct statfs status = {};
  if (statfs(directory.c_str(), &status) != 0) return false;
  return std::ranges::find(kNetworkFilesystems, static_cast<uint32_t>(status.f_type)) != kNetworkFilesystems.end();
}

Staging::Staging(std::string destination) : destination_(std::move(destination)) {
  const char* temporary = std::getenv("TMPDIR");
  std::string pattern = std::string(temporary && *temporary ? temporary : "/var/tmp") + "/vramtrack-XXXXXX";
  if (mkdtemp(pattern.data()) != nullptr) directory_ = pattern;
}

Staging::~Staging() { finish(); }

void Staging::copy_at_intervals(int seconds) {
  // Signals are for the main thread, which forwards them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  copier_ = std::thread([this, seconds] {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::seconds(seconds), [this] { return finished_; })) copy_all();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Staging::finish() {
  {
    std::lock_guard lock(mutex_);
    if (finished_ || directory_.empty()) return;
    finished_ = true;
  }
  wake_.notify_all();
  if (copier_.joinable()) copier_.join();
  failures_ = copy_all();
  for (const Failure& failure : failures_) places_.erase(failure.staged);  // an older copy is not all of it
  for (const auto& [staged, place] : places_) {
    std::error_code ignored;
    if (!is_running(staged)) fs::remove(staged, ignored);
  }
  rmdir(directory_.c_str());  // stays if a file in it does
}

std::string Staging::place_of(const std::string& staged) const {
  auto at = places_.find(staged);
  return at == places_.end() ? staged : at->second;
}

std::vector<Staging::Failure> Staging::copy_all() {
  std::vector<Failure> failures;
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    files.push_back(at->path().string());
  }
  if (error) {  // what was copied before may have grown since
    for (const auto& [staged, place] : places_) failures.push_back({staged, error.message()});
    return failures;
  }
  for (const std::string& staged : files) {
    if (std::error_code why = copy(staged)) failures.push_back({staged, why.message()});
  }
  return failures;
}

// Under another name first: whoever reads the place sees a whole copy, an old or a new one.
std::error_code Staging::copy(const std::string& staged) {
  std::string place = places_.contains(staged) ? places_[staged] : new_place(staged);
  std::string partial = place + ".partial";
  std::error_code error;
  fs::copy_file(staged, partial, fs::copy_options::overwrite_existing, error);
  if (!error) fs::permissions(partial, fs::perms::owner_read | fs::perms::owner_write, error);
  if (!error) fs::rename(partial, place, error);
  if (error) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    return error;
  }
  places_[staged] = place;
  return {};
}

// Nothing that was there before is overwritten.
std::string Staging::new_place(const std::string& staged) const {
  fs::path name = fs::path(staged).filename();
  fs::path place = fs::path(destination_) / name;
  for (int i = 1; fs::exists(place); ++i) {
    place = fs::path(destination_) / (name.stem().string() + "." + std::to_string(i) + name.extension().string());
  }
  return place.string();
}

}  // namespace vramtrack
