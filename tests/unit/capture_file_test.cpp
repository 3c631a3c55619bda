// Does the capture file grow without moving anything, and stop without harming anyone when it cannot grow?

#include "interpose/capture_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/scratch_capture.h"

namespace vramtrack {
namespace {

using namespace format;

TEST(CaptureFile, is_private_and_never_replaces_a_file) {
  ScratchCapture capture;
  ASSERT_TRUE(capture.created());
  struct stat st;
  stat(capture.path().c_str(), &st);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  CaptureFile again{};
  EXPECT_FALSE(create_capture_file(again, capture.path().c_str()));
  EXPECT_EQ(again.failure_errno, EEXIST);
}

TEST(CaptureFile, follows_no_link) {
  ScratchCapture capture;
  const std::string link = capture.path() + ".link";
  ASSERT_EQ(symlink("/tmp/vramtrack-test-target", link.c_str()), 0);
  CaptureFile file{};
  EXPECT_FALSE(create_capture_file(file, link.c_str()));
  unlink(link.c_str());
}

TEST(CaptureFile, records_keep_their_address_while_the_table_grows) {
  ScratchCapture capture;
  const StackNode first{7, 9};
  const uint32_t id = append(capture.file(), kStacks, &first);
  void* const before = record_at(capture.file(), kStacks, id);
  for (uint32_t i = 0; i < 100000; i++) {
    const StackNode node{i, i + 1};
    ASSERT_EQ(append(capture.file(), kStacks, &node), id + 1 + i);
  }
  EXPECT_EQ(record_at(capture.file(), kStacks, id), before);
  EXPECT_EQ(capture.at<StackNode>(kStacks, id + 100000).parent, 99999u);
}

TEST(CaptureFile, a_string_lies_in_one_piece) {
  ScratchCapture capture;
  for (int i = 0; i < 2000; i++) {
    const std::string text(100 + i, static_cast<char>('a' + i % 26));
    const uint32_t id = intern_string(capture.interner(), text);
    ASSERT_NE(id, 0u);
    const char* at = static_cast<const char*>(record_at(capture.file(), kStrings, id));
    ASSERT_EQ(std::string(at + sizeof(StringHeader)), text);
  }
}

uint32_t append_many(ScratchCapture& capture) {
  uint32_t last = 1;
  for (uint32_t i = 0; i < 100000 && last; i++) {
    const StackNode node{i, 1};
    last = append(capture.file(), kStacks, &node);
  }
  return last;
}

TEST(CaptureFile, a_program_that_closes_all_descriptors_does_not_stop_recording) {
  ScratchCapture capture;
  close(capture.file().open.fd);
  EXPECT_NE(append_many(capture), 0u);
}

TEST(CaptureFile, a_descriptor_that_is_the_programs_by_now_is_left_alone) {
  ScratchCapture capture;
  std::FILE* other = std::tmpfile();
  dup2(fileno(other), capture.file().open.fd);
  EXPECT_NE(append_many(capture), 0u);
  EXPECT_EQ(lseek(fileno(other), 0, SEEK_END), 0);
}

TEST(CaptureFile, a_file_that_is_gone_stops_recording_and_nothing_else) {
  ScratchCapture capture;
  unlink(capture.path().c_str());
  close(capture.file().open.fd);
  EXPECT_EQ(append_many(capture), 0u);
  EXPECT_TRUE(capture.file().stopped.load());
  EXPECT_EQ(capture.header().stop_reason, StopReason::kMapFailed);
}

void fill_until_the_limit() {
  signal(SIGXFSZ, [](int) { _exit(1); });
  ScratchCapture capture;
  rlimit limit = {1 << 20, 1 << 20};
  setrlimit(RLIMIT_FSIZE, &limit);
  StackNode node{1, 1};
  while (append(capture.file(), kStacks, &node)) node.frame++;
  _exit(capture.header().stop_reason == StopReason::kFileSizeLimit ? 0 : 2);
}

TEST(CaptureFile, the_limit_on_file_sizes_is_not_run_into) {
  EXPECT_EXIT(fill_until_the_limit(), testing::ExitedWithCode(0), "");  // in a child: the limit stays with the process
}

}  // namespace
}  // namespace vramtrack
