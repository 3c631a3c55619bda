// A page of text for a terminal: knows its width and whether it has colours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vramtrack {

enum class Style : uint8_t { kPlain, kBold, kDim, kRed, kYellow, kGreen, kCyan };

class Page {
 public:
  Page(size_t width, bool color) : width_(width), color_(color) {}

  size_t width() const { return width_; }
  std::string styled(Style, std::string_view) const;

  void blank();  // one empty line; several in a row are one
  void line(std::string_view text) { text_.append(text).push_back('\n'); }

  // `text` wrapped behind `first`; the lines after the first are indented as far. `first` is not styled.
  void paragraph(std::string_view first, std::string_view text, Style = Style::kPlain);

  const std::string& text() const { return text_; }

 private:
  size_t width_;
  bool color_;
  std::string text_;
};

}  // namespace vramtrack
