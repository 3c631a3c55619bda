// Text made fit for a terminal.
#include "report/render/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vramtrack {
namespace {

// The code point at the front of `text` and its length in bytes; length 0: no UTF-8.
struct Decoded {
  uint32_t code = 0;
  size_t length = 0;
};

Decoded decode(std::string_view text) {
  auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  bool valid = code >= kLeast[length] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return valid ? Decoded{code, length} : Decoded{};
}

bool reorders_or_hides(uint32_t code) {
  return (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x2069) ||
         code == 0xfeff;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The byte where column `column` begins.
size_t byte_of_column(std::string_view text, size_t column) {
  size_t i = 0;
  while (i < text.size() && (continues(text[i]) || column-- != 0)) ++i;
  return i;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    Decoded at = decode(text);
    if (at.length == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    if (at.code < 0x20 || (at.code >= 0x7f && at.code < 0xa0)) {
      out += fmt::format("\\x{:02x}", at.code);
    } else if (reorders_or_hides(at.code)) {
      out += fmt::format("\\u{:04x}", at.code);
    } else {
      out += text.substr(0, at.length);
    }
    text.remove_prefix(at.length);
  }
  return out;
}

size_t columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

std::string cut_left(std::string_view text, size_t width) {
  size_t have = columns(text);
  if (have <= width || width < 4) return std::string(text);
  return "..." + std::string(text.substr(byte_of_column(text, have - (width - 3))));
}

std::string cut_right(std::string_view text, size_t width) {
  if (columns(text) <= width || width < 4) return std::string(text);
  return std::string(text.substr(0, byte_of_column(text, width - 3))) + "...";
}

std::vector<std::string> wrap(std::string_view text, size_t width) {
  width = std::max<size_t>(width, 10);
  std::vector<std::string> lines;
  while (columns(text) > width) {
    size_t limit = byte_of_column(text, width);
    size_t space = text.rfind(' ', limit);
    size_t end = space == std::string_view::npos || space == 0 ? limit : space;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  if (!text.empty() || lines.empty()) lines.emplace_back(text);
  return lines;
}

}  // namespace vramtrack
