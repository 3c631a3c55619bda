// What the reader makes of captures: whole, torn, damaged, foreign, and still being written.
#include "report/capture_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "report/capture_reader_heap.h"
#include "report/capture_reader_tables.h"
#include "tests/unit/report/capture_builder.h"

namespace vramtrack {
namespace {

using test::CaptureBuilder;
using test::training_capture;

Heap read_ok(const std::vector<std::byte>& bytes) {
  auto result = read_capture(bytes, "test.vtrk");
  if (auto* error = std::get_if<ReadError>(&result)) ADD_FAILURE() << error->message;
  return std::holds_alternative<Heap>(result) ? std::get<Heap>(std::move(result)) : Heap{};
}

std::string read_error(const std::vector<std::byte>& bytes) {
  auto result = read_capture(bytes, "test.vtrk");
  return std::holds_alternative<ReadError>(result) ? std::get<ReadError>(result).message : "";
}

// Touches all that was read, so that a sanitizer sees what should not have been.
size_t walk(const Heap& heap) {
  size_t sum = heap.damage.size() + heap.process.notes.size();
  for (const Site& site : heap.sites) {
    sum += locations(heap, site.stack).size() + site.survivors.size() + site.curve.floor.size();
    EXPECT_GE(site.space, 0);
    EXPECT_LT(static_cast<size_t>(site.space), heap.spaces.size());
  }
  return sum;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<std::byte>& bytes) {
    close(mkstemp(path_.data()));
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/vramtrack-test-XXXXXX";
};

TEST(CaptureReader, reads_what_was_written) {
  Heap heap = read_ok(training_capture().bytes());
  EXPECT_TRUE(heap.damage.empty()) << heap.damage[0];
  EXPECT_EQ(heap.process.pid, 4242);
  EXPECT_EQ(heap.process.argv, (std::vector<std::string>{"python", "train.py"}));
  EXPECT_EQ(heap.process.steps, 10u);
  ASSERT_EQ(heap.sites.size(), 1u);
  const Site& site = heap.sites[0];
  EXPECT_EQ(site.id, 1u);
  std::vector<Location> at = locations(heap, site.stack);
  ASSERT_EQ(at.size(), 2u);
  EXPECT_EQ(at[0].function, "evaluate");
  EXPECT_EQ(at[1].line, 40);
  EXPECT_EQ(device_name(heap.spaces[site.space]), "cuda:0");
}

TEST(CaptureReader, survivors_are_oldest_first) {
  Heap heap = read_ok(training_capture().bytes());
  ASSERT_EQ(heap.sites[0].survivors.size(), 2u);
  EXPECT_EQ(heap.sites[0].survivors[0].serial, 4u);
  EXPECT_EQ(heap.sites[0].survivors[1].serial, 5u);
}

TEST(CaptureReader, bytes_at_the_peak_are_saved_ones_only_if_the_site_changed_since) {
  CaptureBuilder capture = training_capture();
  auto& unchanged = capture.site(0, 1, format::Kind::kDevice);
  unchanged.allocations = 1;
  unchanged.live_bytes = 500;
  unchanged.peak_number = 3;
  unchanged.saved_peak_bytes = 9;
  Heap heap = read_ok(capture.bytes());
  EXPECT_EQ(heap.sites[0].peak_bytes, 4096u);
  EXPECT_EQ(heap.sites[1].peak_bytes, 500u);
}

TEST(CaptureReader, what_the_teardown_freed_was_live_when_the_work_ended) {
  CaptureBuilder capture = training_capture();
  capture.header()->work_ended_serial = 6;
  auto& site = capture.site(0, 1, format::Kind::kDevice);
  site.allocations = site.frees = 1;
  capture.header()->end_number = site.end_number = format::kAfterWork;
  site.end_bytes = 64;
  capture.block(2, 6, 64, format::kAfterWork);
  capture.block(2, 7, 64);  // made by the teardown itself
  Heap heap = read_ok(capture.bytes());
  EXPECT_EQ(heap.sites[1].end_bytes, 64u);
  EXPECT_EQ(heap.sites[1].live_bytes, 0u);
  ASSERT_EQ(heap.sites[1].survivors.size(), 1u);
  EXPECT_FALSE(heap.sites[1].survivors[0].let_go);
}

TEST(CaptureReader, what_went_after_the_last_allocation_was_live_when_the_work_ended) {
  CaptureBuilder capture = training_capture();
  capture.header()->work_ended_serial = capture.header()->end_number = 7;
  auto& site = capture.site(0, 1, format::Kind::kDevice);
  site.allocations = site.frees = 2;
  site.end_number = 7;
  site.end_bytes = 64;
  capture.block(2, 5, 64, 6);  // the allocation after it has a number of its own
  capture.block(2, 6, 32, 7);
  capture.block(2, 7, 32, 7 | format::kAfterWork);
  Heap heap = read_ok(capture.bytes());
  EXPECT_EQ(heap.sites[1].end_bytes, 64u);
  ASSERT_EQ(heap.sites[1].survivors.size(), 2u);
  EXPECT_TRUE(heap.sites[1].survivors[0].let_go);
  EXPECT_FALSE(heap.sites[1].survivors[1].let_go);
  capture.header()->end_number = 0;  // still at work: nothing is known of the end
  EXPECT_TRUE(read_ok(capture.bytes()).sites[1].survivors.empty());
}

void set_curve(CaptureBuilder& capture, uint32_t scale, std::vector<float> floors) {
  auto& curve = capture.add<format::Curve>(format::kCurves);
  curve.site = 1;
  curve.by_iteration = 1;
  curve.scale = scale;
  curve.last_window = static_cast<uint32_t>(floors.size() - 1);
  std::ranges::copy(floors, curve.floor);
}

// The space was touched last in the third step.
void set_clock(format::Space& space) {
  space.clock = format::Clock::kStep;
  space.iterations_seen = 3;
  space.windows = 2;
}

TEST(CaptureReader, curve_goes_on_flat_to_the_end) {
  CaptureBuilder capture;
  capture.header()->steps.store(6);
  set_clock(capture.space(format::Layer::kPytorch, format::Memory::kDevice, 0));
  auto& site = capture.site(0, 1, format::Kind::kDevice);
  site.allocations = 2;
  site.live_bytes = 30;
  site.curve = 1;
  set_curve(capture, 0, {10, 20, 30});
  Heap heap = read_ok(capture.bytes());
  EXPECT_EQ(heap.sites[0].curve.floor, (std::vector<double>{10, 20, 30, 30, 30, 30}));
}

TEST(CaptureReader, long_quiet_curve_is_merged_to_the_usual_points) {
  CaptureBuilder capture;
  capture.header()->steps.store(200);
  set_clock(capture.space(format::Layer::kPytorch, format::Memory::kDevice, 0));
  auto& site = capture.site(0, 1, format::Kind::kDevice);
  site.allocations = 2;
  site.live_bytes = 30;
  site.curve = 1;
  set_curve(capture, 0, {10, 20, 30});
  Curve curve = read_ok(capture.bytes()).sites[0].curve;
  ASSERT_EQ(curve.floor.size(), 50u);
  EXPECT_EQ(curve.floor[0], 10);
  EXPECT_EQ(curve.floor[1], 30);
}

TEST(CaptureReader, torn_block_reads_as_absent) {
  std::vector<std::byte> bytes = training_capture().bytes();
  auto* table = &reinterpret_cast<format::Header*>(bytes.data())->tables[format::kBlocks];
  uint64_t serial_at = table->chunks[0].load() + sizeof(format::Block);
  int pass = 0;
  // A writer that reuses the first block between the reader's passes over the table.
  reader::Source source{[&](uint64_t offset, std::span<std::byte> into) {
                          std::memcpy(into.data(), bytes.data() + offset, into.size());
                          uint64_t serial = 100 + static_cast<uint64_t>(pass++);
                          std::memcpy(bytes.data() + serial_at, &serial, sizeof(serial));
                          return into.size();
                        },
                        [&] { return bytes.size(); }};
  reader::HeaderCopy header;
  std::memcpy(header.bytes, bytes.data(), sizeof(header.bytes));
  std::vector<std::string> damage;
  reader::TableCopy blocks = reader::read_blocks(source, header, damage);
  EXPECT_EQ(blocks.at<format::Block>(1).serial.load(), 0u);
  EXPECT_EQ(blocks.at<format::Block>(2).serial.load(), 4u);
  EXPECT_TRUE(damage.empty());
}

// The writer goes on while it is read: after the reader's first look at the header, sites, stacks, frames, names and curves come.
TEST(CaptureReader, what_a_running_process_adds_meanwhile_is_no_damage) {
  std::vector<std::byte> bytes = training_capture().bytes();
  reader::HeaderCopy early, late;
  std::memcpy(late.bytes, bytes.data(), sizeof(late.bytes));
  early = late;
  for (auto id : {format::kSites, format::kStacks, format::kFrames, format::kStrings, format::kCurves, format::kSpaces}) {
    const_cast<format::Header*>(early.operator->())->tables[id].count.store(1);
  }
  std::memcpy(bytes.data(), early.bytes, sizeof(early.bytes));
  bool read_once = false;
  const reader::Source source{[&](uint64_t offset, std::span<std::byte> into) {
                                if (read_once) std::memcpy(bytes.data(), late.bytes, sizeof(late.bytes));
                                read_once = true;
                                std::memcpy(into.data(), bytes.data() + offset, into.size());
                                return into.size();
                              },
                              [&] { return bytes.size(); }};
  reader::HeaderCopy header;
  source.read_at(0, header.bytes);
  const Heap heap = reader::read_heap(source, header);
  EXPECT_EQ(heap.damage, std::vector<std::string>{});
  EXPECT_EQ(heap.sites.size(), read_ok(training_capture().bytes()).sites.size());
}

// A table's new chunk lies behind what was the file's end at the reader's first look.
TEST(CaptureReader, a_file_that_grows_meanwhile_is_no_damage) {
  const std::vector<std::byte> whole = training_capture().bytes();
  size_t size = sizeof(format::Header);
  const reader::Source source{[&](uint64_t offset, std::span<std::byte> into) {
                                std::memcpy(into.data(), whole.data() + offset, into.size());
                                size = whole.size();
                                return into.size();
                              },
                              [&] { return size; }};
  reader::HeaderCopy header;
  source.read_at(0, header.bytes);
  EXPECT_EQ(reader::read_heap(source, header).damage, std::vector<std::string>{});
}

TEST(CaptureReader, every_truncation_is_an_error_or_damage) {
  const std::vector<std::byte> whole = training_capture().bytes();
  size_t damaged = 0, errors = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<long>(size));
    auto result = read_capture(cut, "cut");
    if (std::holds_alternative<ReadError>(result)) {
      ++errors;
      EXPECT_LT(size, sizeof(format::Header));
    } else {
      walk(std::get<Heap>(result));
      damaged += !std::get<Heap>(result).damage.empty();
    }
  }
  EXPECT_EQ(errors, sizeof(format::Header));
  EXPECT_GT(damaged, (whole.size() - sizeof(format::Header)) / 2);
}

TEST(CaptureReader, truncated_tail_keeps_prefix) {
  std::vector<std::byte> bytes = training_capture().bytes();
  auto* header = reinterpret_cast<format::Header*>(bytes.data());
  bytes.resize(header->tables[format::kBlocks].chunks[0].load() + 2 * sizeof(format::Block));
  Heap heap = read_ok(bytes);
  EXPECT_EQ(heap.sites[0].survivors.size(), 1u);
  EXPECT_FALSE(heap.damage.empty());
}

TEST(CaptureReader, every_byte_flipped_never_crashes) {
  std::vector<std::byte> bytes = training_capture().bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (std::byte flip : {std::byte{0xff}, std::byte{0x80}, std::byte{0x01}}) {
      bytes[i] ^= flip;
      auto result = read_capture(bytes, "flipped");
      if (auto* heap = std::get_if<Heap>(&result)) walk(*heap);
      bytes[i] ^= flip;
    }
  }
}

TEST(CaptureReader, no_records_are_an_empty_heap) {
  Heap heap = read_ok(CaptureBuilder().bytes());
  EXPECT_TRUE(heap.damage.empty());
  EXPECT_TRUE(heap.sites.empty());
  EXPECT_TRUE(heap.spaces.empty());
}

TEST(CaptureReader, cyclic_stack_ends) {
  CaptureBuilder capture = training_capture();
  capture.add<format::StackNode>(format::kStacks) = {3, 1};  // its own parent
  auto& site = capture.site(3, 1, format::Kind::kDevice);
  site.allocations = 1;
  Heap heap = read_ok(capture.bytes());
  EXPECT_TRUE(heap.sites[1].stack.empty());
  EXPECT_FALSE(heap.damage.empty());
}

TEST(CaptureReader, deep_stack_keeps_its_innermost_frames) {
  CaptureBuilder capture = training_capture();
  std::vector<uint32_t> frames(5000, 1);
  frames.back() = 2;
  capture.site(capture.stack(frames), 1, format::Kind::kDevice).allocations = 1;
  Heap heap = read_ok(capture.bytes());
  EXPECT_EQ(heap.sites[1].stack.size(), 1024u);
  EXPECT_EQ(heap.sites[1].stack[0], 1u);
  EXPECT_EQ(heap.process.notes.size(), 1u);
}

TEST(CaptureReader, one_long_string_named_often_does_not_multiply) {
  CaptureBuilder capture;
  uint32_t name = capture.string(std::string(1 << 16, 'x'));
  for (int i = 0; i < 20000; ++i) {
    auto& frame = capture.add<format::Frame>(format::kFrames);
    frame.kind = format::FrameKind::kPython;
    frame.function = frame.file = name;
  }
  std::vector<std::byte> bytes = capture.bytes();
  Heap heap = read_ok(bytes);
  size_t copied = 0;
  for (const Frame& frame : heap.frames) copied += frame.locations[0].function.size() + frame.locations[0].file.size();
  EXPECT_LE(copied, 17 * bytes.size() + (1 << 20));
  EXPECT_FALSE(heap.damage.empty());
}

TEST(CaptureReader, foreign_files_are_named_with_the_reason) {
  std::vector<std::byte> bytes = training_capture().bytes();
  reinterpret_cast<format::Header*>(bytes.data())->version = 99;
  EXPECT_EQ(read_error(bytes), "test.vtrk: cannot read this capture: its format is version 99, this vramtrack reads version 4");
  bytes[0] = std::byte{'x'};
  EXPECT_EQ(read_error(bytes), "test.vtrk: not a vramtrack capture: it does not begin with the magic bytes");
  EXPECT_EQ(read_error({}), "test.vtrk: not a vramtrack capture: the file is empty");
}

TEST(CaptureReader, times_count_from_the_start_of_the_process) {
  CaptureBuilder capture = training_capture();
  capture.header()->began_ms = 1500;
  capture.header()->start_realtime_ns = 10'500'000'000;
  capture.header()->last_time_ms = 2000;
  Heap heap = read_ok(capture.bytes());
  EXPECT_EQ(heap.process.start_time, "1970-01-01T00:00:09Z");
  EXPECT_EQ(heap.process.recorded_from, 1.5);
  EXPECT_EQ(heap.process.duration, 3.5);
  EXPECT_FALSE(heap.process.end_time_known);
  capture.header()->end_time_ms = 4000;
  capture.header()->end_kind = format::EndKind::kExit;
  heap = read_ok(capture.bytes());
  EXPECT_EQ(heap.process.duration, 5.5);
  EXPECT_TRUE(heap.process.end_time_known);
}

TEST(CaptureReader, directory_and_missing_file_are_errors) {
  auto message = [](const char* path) { return std::get<ReadError>(read_capture(std::string(path))).message; };
  EXPECT_EQ(message("/tmp"), "/tmp: not a vramtrack capture: it is a directory");
  EXPECT_EQ(message("/nonexistent.vtrk"), "/nonexistent.vtrk: cannot be opened: No such file or directory");
  EXPECT_EQ(message("/dev/zero"), "/dev/zero: not a vramtrack capture: it is not a regular file");
}

TEST(CaptureReader, end_is_written_once_into_the_capture_of_that_process_only) {
  CaptureBuilder capture = training_capture();
  capture.header()->run_id = 77;
  TemporaryFile file(capture.bytes());
  EXPECT_FALSE(write_process_end(file.path(), 4242, 78, {false, 1}));
  EXPECT_FALSE(write_process_end(file.path(), 1, 77, {false, 1}));
  EXPECT_EQ(std::get<Heap>(read_capture(file.path())).process.ended, "unknown");
  EXPECT_TRUE(write_process_end(file.path(), 4242, 77, {true, 9}));
  write_process_end(file.path(), 4242, 77, {false, 0});
  EXPECT_EQ(std::get<Heap>(read_capture(file.path())).process.ended, "signal:9");
}

}  // namespace
}  // namespace vramtrack
