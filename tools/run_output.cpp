// Where a run's captures go, and which they were.
#include "tools/run_output.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace vramtrack {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultName = "%n.%p.vtrk";

// A directory's own percent signs are no place-holders.
std::string escaped(const std::string& directory) {
  std::string text;
  for (char c : directory) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

// One that is not there yet is made, unless the name is that of a capture or of many.
bool means_directory(const std::string& wanted) {
  std::error_code error;
  const bool names_captures = wanted.ends_with(".vtrk") || wanted.find('%') != std::string::npos;
  return wanted.ends_with('/') || fs::is_directory(wanted, error) || (!names_captures && !fs::exists(wanted, error));
}

struct Destination {
  std::string directory;  // as it is; "" if it has place-holders of its own
  std::string pattern;    // absolute
};

Destination destination(const std::string& wanted) {
  std::error_code error;
  const std::string here = fs::current_path(error).string();
  if (wanted.empty()) return {here, escaped(here) + "/" + kDefaultName};
  if (means_directory(wanted)) {
    fs::create_directories(wanted, error);
    std::string directory = fs::absolute(wanted, error).lexically_normal().string();
    if (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
    return {directory, escaped(directory) + "/" + kDefaultName};
  }
  std::string pattern = wanted.starts_with('/') ? wanted : escaped(here) + "/" + wanted;
  std::string directory = pattern.substr(0, std::max<size_t>(pattern.rfind('/'), 1));
  bool has_placeholders = wanted.substr(0, std::min(wanted.rfind('/'), wanted.size())).find('%') != std::string::npos;
  if (wanted.find('/') == std::string::npos) return {here, pattern};
  if (has_placeholders) return {"", pattern};
  fs::create_directories(directory, error);
  return {fs::path(directory).lexically_normal().string(), pattern};
}

std::string why_not_writable(const std::string& directory) {
  if (directory.empty() || access(directory.c_str(), W_OK | X_OK) == 0) return {};
  return fmt::format("{}: captures cannot be written there: {}", directory, std::strerror(errno));
}

// Made by us, 0600, so that no other user can slip in a path of theirs.
std::string make_manifest() {
  const char* temporary = std::getenv("TMPDIR");
  std::string path = std::string(temporary && *temporary ? temporary : "/tmp") + "/vramtrack-run-XXXXXX";
  int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return {};
  close(fd);
  return path;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

RunOutput::RunOutput(const std::string& wanted) {
  while (run_id_ == 0 && getrandom(&run_id_, sizeof(run_id_), 0) != sizeof(run_id_)) {
  }
  Destination to = destination(wanted);
  pattern_ = to.pattern;
  error_ = why_not_writable(to.directory);
  manifest_ = make_manifest();
  if (manifest_.empty()) error_ = fmt::format("no temporary file can be made: {}", std::strerror(errno));
  if (error_.empty() && !to.directory.empty() && is_network_filesystem(to.directory)) {
    auto staging = std::make_unique<Staging>(to.directory);
    if (staging->directory().empty()) return;  // no local place: the library tries the remote one
    pattern_ = escaped(staging->directory()) + pattern_.substr(pattern_.rfind('/'));
    staging_ = std::move(staging);
  }
}

void RunOutput::copy_at_intervals(int seconds) {
  if (staging_) staging_->copy_at_intervals(seconds);
}

std::vector<std::string> RunOutput::collect(pid_t pid, ProcessEnd end) {
  std::vector<std::string> captures = lines_of(manifest_);
  std::erase_if(captures, [&](const std::string& line) {
    if (!line.starts_with('!')) return false;
    messages_.push_back(line.substr(1));
    return true;
  });
  std::erase_if(captures, [](const std::string& capture) { return access(capture.c_str(), F_OK) != 0; });
  for (const std::string& capture : captures) write_process_end(capture, pid, run_id_, end);
  if (staging_) {
    staging_->finish();
    for (const Staging::Failure& failure : staging_->failures()) {
      messages_.push_back(fmt::format("{} cannot be copied to its place: {}; it stays where it is", failure.staged, failure.why));
    }
    for (std::string& capture : captures) capture = staging_->place_of(capture);
  }
  return captures;
}

void RunOutput::clean_up() {
  if (!manifest_.empty()) unlink(manifest_.c_str());
  manifest_.clear();
  if (staging_) staging_->finish();
}

}  // namespace vramtrack
