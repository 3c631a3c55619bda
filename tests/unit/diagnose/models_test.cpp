// Models built again and again, memory that settles, and outputs that outlive their step.
#include <gtest/gtest.h>

#include "tests/unit/diagnose/expectations.h"
#include "tests/unit/diagnose/heap_builder.h"

namespace vramtrack {
namespace {

constexpr uint64_t kWeight = 256 * kKiB, kBias = kKiB, kBatch = 64 * kKiB;

// What belongs to one model of four layers and its optimizer.
struct Model {
  Story& story;
  Line built;
  std::vector<Story::BlockId> blocks = {};

  Model(Story& program, const Line& where) : story(program), built(where) {
    for (int layer = 0; layer < 4; ++layer) {
      blocks.push_back(story.alloc(story.parameter(built, 96), kWeight));
      blocks.push_back(story.alloc(story.parameter(built, 98), kBias));
    }
  }
  void train(int steps) {
    const Line loop = story.line("train.py", 9);
    for (int i = 0; i < steps; ++i) {
      for (int layer = 0; layer < 8; ++layer) story.pass(story.in_forward(loop, "relu"), kBatch);
      story.backward_pass();
      if (i == 0) {
        for (int layer = 0; layer < 4; ++layer) blocks.push_back(story.alloc(story.in_backward(loop, "AddmmBackward0"), kWeight));
      }
      story.step();
      if (i == 0) {
        for (int layer = 0; layer < 8; ++layer) blocks.push_back(story.alloc(story.in_optimizer(loop, 110 + layer % 2), kWeight));
      }
    }
  }
  void die() {
    for (const Story::BlockId block : blocks) story.free(block);
    blocks.clear();
  }
};

Line in_loop(Story& story) { return story.line("models.py", 4, "build", story.line("train.py", 6)); }

TEST(models, an_ensemble_that_is_used_is_no_leak) {
  Story story;
  for (int member = 0; member < 5; ++member) Model(story, in_loop(story)).train(10);
  for (int i = 0; i < 400; ++i) {
    for (int layer = 0; layer < 8; ++layer) story.pass(story.in_forward(story.line("predict.py", 5), "relu"), kBatch);
  }
  EXPECT_FALSE(says_leak(story.end()));
}

TEST(models, kept_models_own_their_gradients_and_moments) {
  Story story;
  for (int epoch = 0; epoch < 10; ++epoch) Model(story, in_loop(story)).train(10);
  const Heap heap = story.end();
  EXPECT_EQ(said(heap), "repeated-model-construction/leak");
  const Finding leak = finding(heap, "repeated-model-construction");
  EXPECT_EQ(leak.bytes, story.live_bytes());
  EXPECT_NE(leak.title.find("10 models built at models.py:4 in build(), called at train.py:6"), std::string::npos) << leak.title;
  EXPECT_EQ(leak.sites.front().category, "parameter");
}

// zero_grad lets each step's gradients go; those of a model's last step stay with it.
TEST(models, kept_models_own_the_last_of_many_gradients) {
  Story story;
  for (int epoch = 0; epoch < 8; ++epoch) {
    Model model(story, in_loop(story));
    const Line loop = story.line("train.py", 9);
    std::vector<Story::BlockId> gradients;
    for (int i = 0; i < 18; ++i) {
      for (const Story::BlockId gradient : gradients) story.free(gradient);
      gradients.clear();
      for (int layer = 0; layer < 4; ++layer) gradients.push_back(story.alloc(story.in_backward(loop, "AddmmBackward0"), kWeight));
      story.backward_pass();
      story.step();
    }
  }
  const Heap heap = story.end();
  EXPECT_EQ(said(heap), "repeated-model-construction/leak");
  EXPECT_EQ(finding(heap, "repeated-model-construction").bytes, story.live_bytes());
}

TEST(models, models_kept_by_a_cache_are_found_without_steps) {
  Story story;
  for (int request = 0; request < 40; ++request) {
    Model model(story, in_loop(story));
    for (int layer = 0; layer < 8; ++layer) story.pass(story.in_forward(story.line("serve.py", 9), "relu"), kBatch);
  }
  EXPECT_EQ(said(story.end()), "repeated-model-construction/leak");
}

TEST(models, a_model_that_dies_late_is_waste) {
  Story story;
  Model old(story, in_loop(story));
  old.train(10);
  for (int epoch = 1; epoch < 10; ++epoch) {
    Model next(story, in_loop(story));
    old.die();
    next.train(10);
    old.blocks = next.blocks;
  }
  const Heap heap = story.end();
  EXPECT_FALSE(says_leak(heap)) << said(heap);
  EXPECT_EQ(finding(heap, "repeated-model-construction").severity, Severity::kWaste);
}

TEST(models, a_model_freed_before_the_next_is_built_is_nothing) {
  Story story;
  for (int epoch = 0; epoch < 10; ++epoch) {
    Model model(story, in_loop(story));
    model.train(10);
    model.die();
  }
  EXPECT_EQ(said(story.end()), "");
}

TEST(models, an_ensemble_built_once_is_no_leak) {
  Story story;
  std::vector<Model> ensemble;
  for (int i = 0; i < 10; ++i) ensemble.emplace_back(story, in_loop(story));
  for (Model& model : ensemble) model.blocks.clear();
  const Line loop = story.line("train.py", 9);
  for (int i = 0; i < 100; ++i) {
    for (int layer = 0; layer < 40; ++layer) story.pass(story.in_forward(loop, "relu"), kBatch);
    story.step();
  }
  EXPECT_FALSE(says_leak(story.end())) << said(story.end());
}

TEST(models, first_steps_of_an_optimizer_are_warm_up) {
  Story story;
  Model model(story, in_loop(story));
  model.train(50);
  const Heap heap = story.end();
  EXPECT_EQ(said(heap), "warm-up/info");
  EXPECT_NE(finding(heap, "warm-up").evidence[1].find("optimizer state"), std::string::npos);
}

// `outputs = head(x)` in a loop: the old ones go when the name is bound again.
TEST(models, outputs_of_the_last_step_are_stale) {
  Story story;
  Model model(story, in_loop(story));
  const Line call = story.line("train.py", 8);
  Story::BlockId outputs = 0;
  for (int i = 0; i < 60; ++i) {
    const Story::BlockId next = story.alloc(story.in_forward(call, "addmm"), 8 * kMiB);
    if (outputs != 0) story.free(outputs);
    outputs = next;
    story.backward_pass();
    story.step();
  }
  const Heap heap = story.end();
  EXPECT_EQ(said(heap), "stale-intermediates/waste");
  EXPECT_EQ(finding(heap, "stale-intermediates").bytes, 8 * kMiB);
  EXPECT_EQ(finding(heap, "stale-intermediates").confidence, Confidence::kHigh);
}

TEST(models, outputs_that_go_when_the_function_of_the_step_returns_are_not_stale) {
  Story story;
  Model model(story, in_loop(story));
  for (int i = 0; i < 60; ++i) {
    const Story::BlockId outputs = story.alloc(story.in_forward(story.line("train.py", 8, "train_step"), "addmm"), 8 * kMiB);
    story.backward_pass();
    story.step();
    story.free(outputs);
  }
  EXPECT_EQ(said(story.end()), "");
}

TEST(models, averaged_weights_that_are_replaced_each_step_are_state) {
  Story story;
  Model model(story, in_loop(story));
  Story::BlockId average = 0;
  for (int i = 0; i < 60; ++i) {
    story.pass(story.in_forward(story.line("train.py", 8, "train_step"), "addmm"), 8 * kMiB);
    story.step();
    const Story::BlockId next = story.alloc(story.at(story.line("ema.py", 11, "update"), "add"), 8 * kMiB);
    if (average != 0) story.free(average);
    average = next;
  }
  EXPECT_EQ(said(story.end(), "warm-up"), "");
}

TEST(models, outputs_freed_within_their_step_are_not_stale) {
  Story story;
  Model model(story, in_loop(story));
  for (int i = 0; i < 60; ++i) {
    story.pass(story.in_forward(story.line("train.py", 8), "addmm"), 8 * kMiB);
    story.step();
  }
  EXPECT_EQ(said(story.end()), "");
}

TEST(models, an_empty_heap_has_no_findings) {
  EXPECT_EQ(said(Heap{}), "");
  EXPECT_EQ(said(Story().end()), "");
}

}  // namespace
}  // namespace vramtrack
