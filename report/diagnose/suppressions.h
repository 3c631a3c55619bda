// Which findings the user does not want to hear of again.
//
// A list has one rule a line, after the manner of LeakSanitizer; # begins a comment:
//
//   cached-unused                  no finding of this id
//   leak:load_weights              no leak whose named place (its first site) has this in a function, file or module of its stack
//   retained-results:eval/*.py     the same for one id
//
// Patterns match any part of a name; * and ? are wildcards.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "report/diagnose/finding.h"
#include "report/heap.h"

namespace vramtrack {

struct Suppression {
  std::string what;     // a finding's id, or "leak", "waste", "info"
  std::string pattern;  // "" = always
};

// The rules, or what is wrong with the list: "FILE:LINE: why".
std::variant<std::vector<Suppression>, std::string> read_suppressions(const std::string& path);
std::variant<std::vector<Suppression>, std::string> parse_suppressions(const std::string& text, const std::string& name);

// Takes the suppressed findings out and says how many those were.
size_t suppress(const std::vector<Suppression>&, const Heap&, std::vector<Finding>&);

}  // namespace vramtrack
