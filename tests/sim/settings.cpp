// How is the environment of the simulated driver read? A malformed value is named on stderr and ignored: a test must not pass
// because its failure rule was misspelt.
#include "settings.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>

#include "error_names.h"

namespace sim {
namespace {

struct FailureRule {
  std::string function;
  unsigned long nth = 0;
  bool every_later = false;
  CUresult error = CUDA_ERROR_OUT_OF_MEMORY;
  std::atomic<unsigned long> calls{0};

  bool applies_to_next_call() {
    unsigned long call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
    return every_later ? call >= nth : call == nth;
  }
};

struct Environment {
  Settings settings;
  std::deque<FailureRule> rules;  // a deque because an atomic cannot move
};

void complain(const char* variable, std::string_view value) {
  std::fprintf(stderr, "vramtrack sim: %s: cannot use '%.*s'\n", variable, static_cast<int>(value.size()), value.data());
}

std::optional<unsigned long> parse_number(std::string_view text) {
  std::string copy(text);
  char* end = nullptr;
  unsigned long value = std::strtoul(copy.c_str(), &end, 10);
  if (copy.empty() || *end != '\0' || copy[0] == '-') return std::nullopt;
  return value;
}

std::optional<size_t> parse_bytes(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K': case 'k': shift = 10; break;
      case 'M': case 'm': shift = 20; break;
      case 'G': case 'g': shift = 30; break;
    }
  }
  if (shift != 0) text.remove_suffix(1);
  std::optional<unsigned long> value = parse_number(text);
  if (!value || *value == 0) return std::nullopt;
  return size_t{*value} << shift;
}

std::optional<CUresult> parse_error(std::string_view text) {
  if (std::optional<unsigned long> number = parse_number(text)) return static_cast<CUresult>(*number);
  return error_by_name(text);
}

// Splits off what stands before the first `separator`.
std::string_view take_until(std::string_view& rest, char separator) {
  size_t end = rest.find(separator);
  std::string_view head = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return head;
}

bool parse_rule(std::string_view text, FailureRule& rule) {
  rule.function = take_until(text, ':');
  std::string_view nth = take_until(text, ':');
  if (!nth.empty() && nth.back() == '+') {
    rule.every_later = true;
    nth.remove_suffix(1);
  }
  std::optional<unsigned long> number = parse_number(nth);
  if (rule.function.empty() || !number || *number == 0) return false;
  rule.nth = *number;
  if (text.empty()) return true;
  std::optional<CUresult> error = parse_error(text);
  if (error) rule.error = *error;
  return error.has_value();
}

void read_rules(std::string_view text, Environment& environment) {
  while (!text.empty()) {
    std::string_view one = take_until(text, ',');
    if (!parse_rule(one, environment.rules.emplace_back())) {
      environment.rules.pop_back();
      complain("VRAMTRACK_SIM_FAIL", one);
    }
  }
  environment.settings.any_failure_rule = !environment.rules.empty();
}

void read_bytes(const char* variable, size_t& to) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return;
  if (std::optional<size_t> value = parse_bytes(text)) to = *value;
  else complain(variable, text);
}

void read_environment(Environment& environment) {
  if (const char* count = std::getenv("VRAMTRACK_SIM_DEVICES")) {
    std::optional<unsigned long> value = parse_number(count);
    if (value && *value <= 64) environment.settings.device_count = static_cast<int>(*value);
    else complain("VRAMTRACK_SIM_DEVICES", count);
  }
  read_bytes("VRAMTRACK_SIM_MEMORY", environment.settings.device_bytes);
  read_bytes("VRAMTRACK_SIM_CONTEXT", environment.settings.context_bytes);
  read_bytes("VRAMTRACK_SIM_STREAM", environment.settings.stream_bytes);
  environment.settings.usage_directory = std::getenv("VRAMTRACK_SIM_USAGE");
  if (const char* rules = std::getenv("VRAMTRACK_SIM_FAIL")) read_rules(rules, environment);
}

Environment& environment() {
  // Never destroyed: programs call CUDA from their own destructors and atexit handlers.
  static Environment* instance = [] {
    auto* fresh = new Environment;
    read_environment(*fresh);
    return fresh;
  }();
  return *instance;
}

}  // namespace

const Settings& settings() { return environment().settings; }

CUresult requested_failure(std::string_view function) {
  CUresult wanted = CUDA_SUCCESS;
  if (!settings().any_failure_rule) return wanted;
  for (FailureRule& rule : environment().rules)
    if (rule.function == function && rule.applies_to_next_call()) wanted = rule.error;
  return wanted;
}

}  // namespace sim
