// A stack as a person reads it: the user's frames one by one, everyone else's folded to a line that says whose they are.
#include "report/render/stack_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "report/categories.h"
#include "report/render/printable.h"
#include "report/words.h"

namespace vramtrack {
namespace {

// More user frames than this are recursion or machinery; the innermost tell where to look.
constexpr size_t kMaxLines = 12;
constexpr size_t kMaxOwners = 3;

// A run of frames that are not the user's.
struct Fold {
  size_t frames = 0;
  std::vector<std::string> owners;

  void add(std::string owner) {
    ++frames;
    if (owners.size() < kMaxOwners && std::ranges::find(owners, owner) == owners.end()) owners.push_back(std::move(owner));
  }

  StackLine line() const {
    return {false, fmt::format("... {} of {}", count_text(frames, "frame"), fmt::join(owners, ", ")), "", 0};
  }
};

class Folder {
 public:
  void user(const Location& at) {
    close_fold();
    lines_.push_back({true, printable(at.function.empty() ? "?" : at.function), printable(at.file), at.line});
  }

  // A marker names work that has no frame of its own, e.g. a node of the backward pass.
  void marker(const Location& at) {
    close_fold();
    lines_.push_back({false, printable(at.function), "", 0});
  }

  void library(std::string owner) { fold_.add(printable(owner)); }

  std::vector<StackLine> finish() {
    bool has_user = std::ranges::any_of(lines_, &StackLine::is_user);
    if (!has_user) close_fold();
    if (lines_.size() > kMaxLines) {
      size_t hidden = lines_.size() - (kMaxLines - 1);
      lines_.resize(kMaxLines - 1);
      lines_.push_back({false, fmt::format("... {} further out", count_text(hidden, "line")), "", 0});
    }
    return std::move(lines_);
  }

 private:
  void close_fold() {
    if (fold_.frames != 0) lines_.push_back(fold_.line());
    fold_ = {};
  }

  std::vector<StackLine> lines_;
  Fold fold_;
};

}  // namespace

std::vector<StackLine> fold_stack(const Heap& heap, const Stack& stack) {
  Folder folder;
  for (uint32_t index : stack) {
    if (index >= heap.frames.size()) continue;
    const Frame& frame = heap.frames[index];
    if (frame.kind == FrameKind::kMarker) {
      if (!frame.locations.empty()) folder.marker(frame.locations[0]);
      continue;
    }
    const std::vector<Location> users = user_locations(heap, frame);
    for (const Location& at : users) folder.user(at);
    if (!users.empty()) continue;
    std::string library = owner(heap, frame);
    if (library != "libvramtrack") folder.library(std::move(library));  // our own wrappers are none of the reader's concern
  }
  return folder.finish();
}

}  // namespace vramtrack
