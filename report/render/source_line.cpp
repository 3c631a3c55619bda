// The text of a line of source, where the file is on this machine.
#include "report/render/source_line.h"

#include <filesystem>
#include <fstream>

namespace vramtrack {
namespace {

namespace fs = std::filesystem;

// The name is the capture's: it may be a device, a pipe, a disk image.
constexpr uintmax_t kMaxFileSize = 8 << 20;

bool is_source(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) <= kMaxFileSize && !error;
}

// The file at its place, else under `root` with as much of its path as is there.
fs::path find_source(const fs::path& file, const std::string& root) {
  if (is_source(file)) return file;
  if (root.empty()) return {};
  for (fs::path rest = file.relative_path(); !rest.empty();) {
    if (is_source(root / rest)) return root / rest;
    fs::path shorter;
    for (auto part = std::next(rest.begin()); part != rest.end(); ++part) shorter /= *part;
    rest = shorter;
  }
  return {};
}

std::string trimmed(const std::string& text) {
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

const std::vector<std::string>& SourceLines::lines(const std::string& file) {
  auto [at, is_new] = files_.try_emplace(file);
  if (!is_new || file.empty()) return at->second;
  fs::path path = find_source(file, root_);
  if (path.empty()) return at->second;
  std::ifstream stream(path);
  for (std::string text; std::getline(stream, text);) at->second.push_back(trimmed(text));
  return at->second;
}

const std::string& SourceLines::line(const std::string& file, int number) {
  static const std::string kNone;
  const auto& all = lines(file);
  return number >= 1 && static_cast<size_t>(number) <= all.size() ? all[number - 1] : kNone;
}

}  // namespace vramtrack
