// Which findings the user does not want to hear of again.
#include "report/diagnose/suppressions.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace vramtrack {
namespace {

std::string trimmed(std::string text) {
  text.erase(std::min(text.find('#'), text.size()));
  size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool matches(const std::string& pattern, const std::string& name) {
  return !name.empty() && fnmatch(("*" + pattern + "*").c_str(), name.c_str(), 0) == 0;
}

bool stack_matches(const std::string& pattern, const Heap& heap, const Stack& stack) {
  return std::ranges::any_of(stack, [&](uint32_t index) {
    if (index >= heap.frames.size()) return false;
    const Frame& frame = heap.frames[index];
    bool has_module = frame.module >= 0 && static_cast<size_t>(frame.module) < heap.modules.size();
    if (has_module && matches(pattern, heap.modules[frame.module].path)) return true;
    return std::ranges::any_of(frame.locations, [&](const Location& at) {
      return matches(pattern, at.function) || matches(pattern, at.file);
    });
  });
}

bool is_suppressed(const Suppression& rule, const Heap& heap, const Finding& finding) {
  if (rule.what != finding.id && rule.what != to_string(finding.severity)) return false;
  if (rule.pattern.empty()) return true;
  // By the place it names, which is what a person copies from the report. Its other sites come from the same cause.
  return !finding.sites.empty() && stack_matches(rule.pattern, heap, finding.sites.front().stack);
}

bool is_id(const std::string& what) {
  return !what.empty() && what.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

}  // namespace

std::variant<std::vector<Suppression>, std::string> parse_suppressions(const std::string& text, const std::string& name) {
  std::vector<Suppression> rules;
  std::istringstream lines(text);
  int number = 0;
  for (std::string raw; std::getline(lines, raw);) {
    ++number;
    std::string line = trimmed(raw);
    if (line.empty()) continue;
    size_t colon = std::min(line.find(':'), line.size());
    Suppression rule{line.substr(0, colon), colon < line.size() ? trimmed(line.substr(colon + 1)) : ""};
    if (!is_id(rule.what) || (colon < line.size() && rule.pattern.empty())) {
      return fmt::format("{}:{}: not a suppression: expected `finding-id` or `finding-id:pattern`", name, number);
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::variant<std::vector<Suppression>, std::string> read_suppressions(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    if (file && file.peek() == std::ifstream::traits_type::eof()) return std::vector<Suppression>{};
    return fmt::format("{}: cannot be read: {}", path, std::strerror(errno));
  }
  return parse_suppressions(text.str(), path);
}

size_t suppress(const std::vector<Suppression>& rules, const Heap& heap, std::vector<Finding>& findings) {
  return std::erase_if(findings, [&](const Finding& finding) {
    return std::ranges::any_of(rules, [&](const Suppression& rule) { return is_suppressed(rule, heap, finding); });
  });
}

}  // namespace vramtrack
