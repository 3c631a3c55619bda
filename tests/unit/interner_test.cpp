// Do equal things get equal ids, and different things different ones?

#include "interpose/interner.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "interpose/hash.h"
#include "tests/unit/scratch_capture.h"

namespace vramtrack {
namespace {

using namespace format;

uint64_t hash_of(const std::vector<uint32_t>& frames) {
  uint64_t hash = 0;
  for (uint32_t f : frames) hash = hash_mix(hash, f);
  return hash;
}
StackRef intern(ScratchCapture& capture, const std::vector<uint32_t>& frames, uint32_t base = 0) {
  return intern_stack(capture.interner(), base, frames.data(), static_cast<uint32_t>(frames.size()), hash_mix(hash_of(frames), base));
}
std::vector<uint32_t> frames_of(ScratchCapture& capture, uint32_t stack) {
  std::vector<uint32_t> frames;
  for (; stack; stack = capture.at<StackNode>(kStacks, stack).parent) frames.push_back(capture.at<StackNode>(kStacks, stack).frame);
  return frames;
}

TEST(Interner, a_stack_reads_back_innermost_first) {
  ScratchCapture capture;
  EXPECT_EQ(frames_of(capture, intern(capture, {5, 4, 3}).id), (std::vector<uint32_t>{5, 4, 3}));
}

TEST(Interner, stacks_share_their_outer_frames) {
  ScratchCapture capture;
  intern(capture, {5, 4, 3, 2, 1});
  const uint64_t before = capture.count(kStacks);
  intern(capture, {6, 4, 3, 2, 1});
  EXPECT_EQ(capture.count(kStacks), before + 1);
}

TEST(Interner, a_lent_stack_is_the_base_of_its_borrowers) {
  ScratchCapture capture;
  const uint32_t base = intern(capture, {2, 1}).id;
  EXPECT_EQ(frames_of(capture, intern(capture, {9, 8}, base).id), (std::vector<uint32_t>{9, 8, 2, 1}));
}

TEST(Interner, strings_and_frames_are_kept_once) {
  ScratchCapture capture;
  EXPECT_EQ(intern_string(capture.interner(), "a"), intern_string(capture.interner(), "a"));
  EXPECT_NE(intern_string(capture.interner(), "a"), intern_string(capture.interner(), "b"));
  EXPECT_EQ(intern_string(capture.interner(), ""), 0u);
  const uint32_t frame = intern_python_frame(capture.interner(), "f", "x.py", 3, 1);
  EXPECT_EQ(intern_python_frame(capture.interner(), "f", "x.py", 3, 1), frame);
  EXPECT_NE(intern_python_frame(capture.interner(), "f", "x.py", 4, 1), frame);
}

TEST(Interner, an_address_is_told_with_its_module) {
  ScratchCapture capture;
  const uint32_t frame = intern_native_frame(capture.interner(), reinterpret_cast<uintptr_t>(&frames_of) + 1);
  const Frame& f = capture.at<Frame>(kFrames, frame);
  ASSERT_NE(f.module, 0u);
  const Module& module = capture.at<Module>(kModules, f.module);
  EXPECT_GT(f.address, module.begin);
  EXPECT_LT(f.address, module.end);
  EXPECT_EQ(intern_native_frame(capture.interner(), 1), intern_native_frame(capture.interner(), 1));
}

TEST(Interner, the_announcement_of_an_optimizer_step_is_seen) {
  ScratchCapture capture;
  Interner& in = capture.interner();
  const uint32_t enter = intern_python_frame(in, "record_function.__enter__", "/lib/torch/autograd/profiler.py", 5, 1);
  const uint32_t step = intern_python_frame(in, "Optimizer.profile_hook_step.<locals>.wrapper", "/lib/torch/optim/optimizer.py", 9, 1);
  const uint32_t zero = intern_python_frame(in, "Optimizer.zero_grad", "/lib/torch/optim/optimizer.py", 20, 1);
  const uint32_t user = intern_python_frame(in, "<module>", "train.py", 2, 1);
  const uint32_t call = intern_python_frame(in, "OpOverloadPacket.__call__", "/lib/torch/_ops.py", 442, 1);
  EXPECT_TRUE(intern(capture, {enter, step, user}).optimizer_step);
  EXPECT_TRUE(intern(capture, {call, enter, step, user}).optimizer_step);
  EXPECT_FALSE(intern(capture, {enter, zero, user}).optimizer_step);
  EXPECT_FALSE(intern(capture, {step, user}).optimizer_step);
}

TEST(Interner, threads_agree_on_ids) {
  ScratchCapture capture;
  std::vector<std::vector<uint32_t>> ids(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (uint32_t i = 1; i < 5000; i++) ids[t].push_back(intern(capture, {i % 2000 + 1, i % 100 + 1, i / 2000 + 1}).id);
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < 4; t++) EXPECT_EQ(ids[t], ids[0]);
  EXPECT_EQ(std::set<uint32_t>(ids[0].begin(), ids[0].end()).size(), ids[0].size());
}

}  // namespace
}  // namespace vramtrack
