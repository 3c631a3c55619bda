// Text made fit for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vramtrack {

// Names come from the traced program. Control characters, escapes and marks that reorder text are written as \x1b or \u202e,
// bytes that are no UTF-8 as the replacement character; so nothing of it can command the terminal or break a line.
std::string printable(std::string_view);

// Columns of printable text: its code points.
size_t columns(std::string_view printable_text);

// Cut to `width` columns, the left end or the right end replaced by "...".
std::string cut_left(std::string_view printable_text, size_t width);
std::string cut_right(std::string_view printable_text, size_t width);

// Broken at spaces into lines of at most `width` columns; longer words are broken too.
std::vector<std::string> wrap(std::string_view printable_text, size_t width);

}  // namespace vramtrack
