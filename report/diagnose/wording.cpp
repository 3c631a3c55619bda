// How do the findings say places? See wording.h.
#include "report/diagnose/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "report/categories.h"

namespace vramtrack {

namespace {

// What a person calls it: "run" for "run.<locals>.<listcomp>".
std::string_view function_as_written(std::string_view function) {
  for (bool inner = true; inner;) {
    inner = false;
    for (std::string_view part : {".<locals>.<listcomp>", ".<locals>.<dictcomp>", ".<locals>.<setcomp>", ".<locals>.<genexpr>"}) {
      if (!function.ends_with(part)) continue;
      function.remove_suffix(part.size());
      inner = true;
    }
  }
  return function;
}

}  // namespace

std::string place_text(const Location& at) {
  const std::string file(base_name(at.file));
  const std::string where = file.empty() ? "" : at.line != 0 ? fmt::format("{}:{}", file, at.line) : file;
  if (at.function.empty() || at.function == "<module>") return where.empty() ? "an unknown place" : where;
  const std::string name(function_as_written(at.function));
  const bool is_address = contains(name, "+0x");
  const std::string function = is_address || contains(name, "(") ? name : name + "()";
  return where.empty() ? function : fmt::format("{} in {}", where, function);
}

std::string place_text(const Heap& heap, const Stack& stack) {
  const std::optional<Location> at = user_line(heap, stack);
  return at ? place_text(*at) : "an unknown place";
}

std::string function_key(const Heap& heap, const Site& site) {
  const std::optional<Location> at = user_line(heap, site.stack);
  return at ? function_key(*at) : "site " + std::to_string(site.id);
}

std::string function_key(const Location& at) { return at.file + ":" + at.function; }

std::vector<Location> user_lines(const Heap& heap, const Stack& stack) {
  std::vector<Location> users;
  for (uint32_t index : stack) {
    if (index >= heap.frames.size()) continue;
    for (const Location& at : user_locations(heap, heap.frames[index])) {
      if (users.empty() || place_text(at) != place_text(users.back())) users.push_back(at);
    }
  }
  return users;
}

std::string call_text(const Heap& heap, const Stack& stack) {
  const std::vector<Location> users = user_lines(heap, stack);
  if (users.empty()) return "an unknown place";
  return users.size() == 1 ? place_text(users[0]) : fmt::format("{}, called at {}", place_text(users[0]), place_text(users[1]));
}

std::string place_among_others(const Heap& heap, const Stack& stack) {
  const std::string place = place_text(heap, stack), call = call_text(heap, stack);
  const bool is_shared = std::ranges::any_of(heap.sites, [&](const Site& other) {
    return place_text(heap, other.stack) == place && call_text(heap, other.stack) != call;
  });
  return is_shared ? call : place;
}

}  // namespace vramtrack
