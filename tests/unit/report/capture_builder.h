// Writes captures by hand: the smallest file that shows what a test is about.
//
// A table is one chunk, as large as its records need.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "interpose/capture_format.h"

namespace vramtrack::test {

class CaptureBuilder {
 public:
  CaptureBuilder() : header_(sizeof(format::Header)) {
    std::memcpy(header()->magic, format::kMagic, sizeof(format::kMagic));
    header()->version = format::kVersion;
    header()->header_size = sizeof(format::Header);
    header()->pid = 4242;
    header()->rank = -1;
    header()->unwinder = format::UnwinderState::kLibunwind;
    constexpr size_t kSizes[] = {1,
                                 sizeof(format::Module),
                                 sizeof(format::Frame),
                                 sizeof(format::StackNode),
                                 sizeof(format::Space),
                                 sizeof(format::Site),
                                 sizeof(format::Curve),
                                 sizeof(format::Block),
                                 sizeof(format::Incident),
                                 sizeof(format::Pool),
                                 sizeof(format::Stream)};
    for (size_t i = 0; i < format::kTableCount; ++i) {
      record_size_[i] = kSizes[i];
      tables_[i].resize(kSizes[i]);  // record 0
    }
  }

  format::Header* header() { return reinterpret_cast<format::Header*>(header_.data()); }

  uint32_t string(std::string_view text) {
    std::vector<std::byte>& table = tables_[format::kStrings];
    auto id = static_cast<uint32_t>(table.size());
    format::StringHeader head{static_cast<uint32_t>(text.size())};
    append(table, &head, sizeof(head));
    append(table, text.data(), text.size());
    table.push_back(std::byte{0});
    return id;
  }

  // A zeroed record that the test fills; valid until the next of the same table.
  template <typename Record>
  Record& add(format::TableId id) {
    std::vector<std::byte>& table = tables_[id];
    table.resize(table.size() + sizeof(Record));
    return *reinterpret_cast<Record*>(table.data() + table.size() - sizeof(Record));
  }
  uint32_t last(format::TableId id) const { return static_cast<uint32_t>(tables_[id].size() / record_size_[id] - 1); }

  uint32_t python_frame(std::string_view function, std::string_view file, uint32_t line) {
    uint32_t function_id = string(function), file_id = string(file);
    auto& frame = add<format::Frame>(format::kFrames);
    frame.kind = format::FrameKind::kPython;
    frame.function = function_id;
    frame.file = file_id;
    frame.line = line;
    return last(format::kFrames);
  }

  // Frames outermost first; the id of the stack.
  uint32_t stack(const std::vector<uint32_t>& frames) {
    uint32_t parent = 0;
    for (uint32_t frame : frames) {
      add<format::StackNode>(format::kStacks) = {parent, frame};
      parent = last(format::kStacks);
    }
    return parent;
  }

  format::Space& space(format::Layer layer, format::Memory memory, int16_t device) {
    auto& space = add<format::Space>(format::kSpaces);
    space.layer = layer;
    space.memory = memory;
    space.device = device;
    return space;
  }

  format::Site& site(uint32_t stack, uint16_t space, format::Kind kind) {
    auto& site = add<format::Site>(format::kSites);
    site.stack = stack;
    site.space = space;
    site.kind = kind;
    return site;
  }

  void block(uint32_t site, uint64_t serial, uint64_t size, uint64_t freed_under = 0) {
    auto& block = add<format::Block>(format::kBlocks);
    block.serial.store(freed_under ? serial | format::kFreed : serial);
    block.address = 0x7f0000000000 + serial * 0x1000;
    block.size = size;
    block.site = site;
    block.end_number = freed_under;
  }

  std::vector<std::byte> bytes() {
    std::vector<std::byte> file = header_;
    for (size_t i = 0; i < format::kTableCount; ++i) {
      while (file.size() % 64 != 0) file.push_back(std::byte{0});
      uint32_t records = static_cast<uint32_t>(tables_[i].size() / record_size_[i]);
      uint32_t chunk = 1;
      while (chunk < records) chunk *= 2;
      auto* table = &reinterpret_cast<format::Header*>(file.data())->tables[i];
      table->count.store(records);
      table->record_size = static_cast<uint32_t>(record_size_[i]);
      table->first_chunk_records = chunk;
      table->chunks[0].store(file.size());
      file.insert(file.end(), tables_[i].begin(), tables_[i].end());
      file.resize(file.size() + (chunk - records) * record_size_[i]);
    }
    return file;
  }

 private:
  static void append(std::vector<std::byte>& to, const void* from, size_t size) {
    auto* begin = static_cast<const std::byte*>(from);
    to.insert(to.end(), begin, begin + size);
  }

  std::vector<std::byte> header_;
  std::vector<std::byte> tables_[format::kTableCount];
  size_t record_size_[format::kTableCount];
};

// A training script: one PyTorch space on cuda:0, one site with two survivors, one frame.
inline CaptureBuilder training_capture() {
  CaptureBuilder capture;
  capture.header()->steps.store(10);
  capture.header()->step_source = format::StepSource::kOptimizer;
  capture.header()->argv = capture.string(std::string_view("python\0train.py\0", 16));
  uint32_t stack = capture.stack({capture.python_frame("main", "/home/me/train.py", 40),
                                  capture.python_frame("evaluate", "/home/me/train.py", 31)});
  auto& space = capture.space(format::Layer::kPytorch, format::Memory::kDevice, 0);
  space.live_bytes = 3072;
  space.live_blocks = 2;
  space.peak_bytes = 4096;
  space.peak_number = 7;
  space.allocations = 5;
  space.frees = 3;
  auto& site = capture.site(stack, 1, format::Kind::kDevice);
  site.allocations = 5;
  site.frees = 3;
  site.live_bytes = 3072;
  site.live_blocks = 2;
  site.peak_number = 7;
  site.saved_peak_bytes = 4096;
  site.saved_peak_blocks = 3;
  capture.block(1, 5, 1024);
  capture.block(1, 4, 2048);
  return capture;
}

}  // namespace vramtrack::test
