// A page of text for a terminal: knows its width and whether it has colours.
#include "report/render/page.h"

#include <fmt/format.h>

#include "report/render/printable.h"

namespace vramtrack {

std::string Page::styled(Style style, std::string_view text) const {
  if (!color_ || style == Style::kPlain) return std::string(text);
  constexpr const char* kCodes[] = {"", "1", "2", "1;31", "1;33", "1;32", "36"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(style)], text);
}

void Page::blank() {
  if (!text_.empty() && !text_.ends_with("\n\n")) text_.push_back('\n');
}

void Page::paragraph(std::string_view first, std::string_view text, Style style) {
  size_t indent = columns(first);
  bool is_first = true;
  for (const std::string& part : wrap(text, width_ > indent ? width_ - indent : 0)) {
    line((is_first ? std::string(first) : std::string(indent, ' ')) + styled(style, part));
    is_first = false;
  }
}

}  // namespace vramtrack
