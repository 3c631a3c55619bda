// A C++ name as a person says it: demangled, without parameters and return type.
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "report/module_symbols.h"

namespace vramtrack {
namespace {

// The demangler's output can be exponential in its input's length; nobody reads such names.
constexpr size_t kMaxMangledLength = 8192;
constexpr size_t kMaxReadableLength = 400;

std::string demangle(const char* name) {
  std::string_view mangled(name);
  if (!mangled.starts_with("_Z") || mangled.size() > kMaxMangledLength) return std::string(mangled);
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> readable(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return readable ? std::string(readable.get()) : std::string(mangled);
}

// "f(int) const [clone .cold]" -> "f(int)"
std::string_view without_qualifiers(std::string_view name) {
  if (size_t clone = name.find(" [clone "); clone != std::string_view::npos) name = name.substr(0, clone);
  for (std::string_view suffix : {" const", " volatile", " &", " &&", "&"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  return name;
}

// "a::f<int>(int, char)" -> "a::f<int>"; a lambda's "{lambda(int)#1}::operator()(int) const" keeps its own parentheses.
std::string_view without_parameters(std::string_view name) {
  if (!name.ends_with(')')) return name;
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) {
      bool is_the_name = name.substr(0, i).ends_with("operator") || i == 0 || name.substr(i) == "(anonymous namespace)";
      return is_the_name ? name : name.substr(0, i);
    }
  }
  return name;
}

// "void a::f<int>" -> "a::f<int>": the demangler writes the return type of templates.
std::string_view without_return_type(std::string_view name) {
  size_t end = std::min(name.find("operator"), name.size());  // "operator bool", "operator new"
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < end; ++i) {
    char c = name[i];
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == '}' || c == ']') --depth;
    if (c == ' ' && depth == 0) begin = i + 1;
  }
  return name.substr(begin);
}

}  // namespace

std::string readable_function(const char* linkage_name) {
  std::string full = demangle(linkage_name);
  std::string name(without_return_type(without_parameters(without_qualifiers(full))));
  if (name.size() > kMaxReadableLength) name = name.substr(0, kMaxReadableLength) + "...";
  return name;
}

}  // namespace vramtrack
