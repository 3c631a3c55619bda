// Tensors that pile up in a PyTorch program: a kept graph, kept results, a growing tensor, and what only looks like them.
#include <gtest/gtest.h>

#include <deque>

#include "tests/unit/diagnose/expectations.h"
#include "tests/unit/diagnose/heap_builder.h"

namespace vramtrack {
namespace {

constexpr uint64_t kTensor = 64 * kKiB;

// A model of four layers; what its forward pass makes is kept for a backward pass, or let go of at once.
struct Model {
  Story& story;
  Line call = story.line("train.py", 31, "evaluate");
  std::vector<Story::BlockId> saved = {};

  explicit Model(Story& program) : story(program) {
    for (int layer = 0; layer < 4; ++layer) story.keep(story.parameter(story.line("train.py", 3), 96), 4 * kTensor);
  }
  Story::BlockId forward(bool graph) {
    saved.clear();
    if (graph) saved.push_back(story.alloc(story.at(story.line("data.py", 9, "batch"), "randn"), kTensor));
    for (int layer = 0; layer < 4; ++layer) {
      story.pass(story.in_forward(call, "addmm"), kTensor);
      saved.push_back(story.alloc(story.in_forward(call, "relu"), kTensor));
      if (!graph && saved.size() > 1) story.free(saved.front()), saved.erase(saved.begin());
    }
    return saved.back();
  }
  // Frees what the forward pass saved but its output.
  void backward() {
    while (saved.size() > 1) story.free(saved.front()), saved.erase(saved.begin());
    story.pass(story.in_backward(call, "AddmmBackward0"), 4 * kTensor);
    story.backward_pass();
  }
};

// A data set's predictions, collected and, if so wanted, joined into one tensor.
Heap predictions(bool joined) {
  Story story;
  Model model(story);
  for (int i = 0; i < 300; ++i) {
    model.forward(false);
    story.keep(story.at(story.line("predict.py", 7), "linear"), kTensor);
  }
  if (joined) story.keep(story.at(story.line("predict.py", 8), "cat"), 300 * kTensor);
  return story.end();
}

TEST(retained, results_joined_in_the_end_are_no_leak) {
  EXPECT_TRUE(says_leak(predictions(false)));
  const Heap heap = predictions(true);
  EXPECT_FALSE(says_leak(heap));
  EXPECT_NE(finding(heap, "retained-results").title.find("joined in the end"), std::string::npos);
}

TEST(retained, graphs_without_backward_are_intermediates) {
  Story story;
  Model model(story);
  for (int i = 0; i < 200; ++i) model.forward(true);
  const Heap heap = story.end();
  EXPECT_EQ(said(heap), "retained-intermediates/leak");
  const Finding leak = finding(heap, "retained-intermediates");
  EXPECT_EQ(leak.blocks, 1000u);
  EXPECT_EQ(leak.bytes, 1000 * kTensor);
  EXPECT_EQ(leak.confidence, Confidence::kHigh);
  EXPECT_NE(leak.title.find("train.py:31 in evaluate()"), std::string::npos) << leak.title;
  EXPECT_NE(leak.advice.find("no_grad"), std::string::npos) << leak.advice;
}

TEST(retained, retained_graph_says_that_backward_ran) {
  Story story;
  Model model(story);
  for (int i = 0; i < 100; ++i) {
    model.forward(true);
    story.pass(story.in_backward(model.call, "AddmmBackward0"), kTensor);
    story.backward_pass();
    story.step();
  }
  const Finding leak = finding(story.end(), "retained-intermediates");
  EXPECT_EQ(leak.severity, Severity::kLeak);
  EXPECT_NE(leak.advice.find("retain_graph"), std::string::npos) << leak.advice;
  EXPECT_NEAR(leak.bytes_per_step, 5 * kTensor, kTensor / 4);
}

// A state carried over: one tensor of each iteration is kept, and each backward pass goes through all of them.
TEST(retained, a_state_carried_over_is_a_kept_graph) {
  Story story;
  const Line call = story.line("rnn.py", 11, "forward");
  for (int i = 0; i < 60; ++i) {
    story.keep(story.at(call, "tanh"), kTensor);
    for (int earlier = 0; earlier <= i; ++earlier) story.pass(story.in_backward(call, "TanhBackward0"), kTensor);
    story.backward_pass();
    story.step();
  }
  const Finding leak = finding(story.end(), "retained-intermediates");
  EXPECT_NE(leak.evidence.front().find("over 60 iterations"), std::string::npos) << leak.evidence.front();
  EXPECT_NE(leak.advice.find("`.detach()` the state"), std::string::npos) << leak.advice;
}

TEST(retained, a_bank_of_results_that_each_iteration_goes_through_is_no_graph) {
  Story story;
  const Line call = story.line("bank.py", 11);
  for (int i = 0; i < 60; ++i) {
    story.keep(story.at(call, "linear"), kTensor);
    for (int earlier = 0; earlier <= i; ++earlier) story.pass(story.at(call, "mm"), kTensor);
    for (int earlier = 0; earlier <= i; ++earlier) story.pass(story.in_backward(call, "MmBackward0"), kTensor);
    story.backward_pass();
    story.step();
  }
  EXPECT_EQ(said(story.end()), "retained-results/leak");
}

TEST(retained, graphs_of_every_other_iteration_are_intermediates) {
  Story story;
  Model model(story);
  for (int i = 0; i < 100; ++i) {
    const Story::BlockId out = model.forward(true);
    if (i % 2 == 0) model.backward(), story.free(out);
  }
  EXPECT_EQ(said(story.end()), "retained-intermediates/leak");
}

TEST(retained, validation_beside_training_is_told_to_use_no_grad) {
  Story story;
  Model model(story);
  const Line training = story.line("train.py", 12, "train_epoch");
  for (int i = 0; i < 60; ++i) {
    story.pass(story.in_forward(training, "relu"), kTensor);
    story.pass(story.in_backward(training, "AddmmBackward0"), kTensor);
    story.backward_pass();
    story.step();
    model.forward(true);
  }
  const Finding leak = finding(story.end(), "retained-intermediates");
  EXPECT_NE(leak.evidence.back().find("none was called from evaluate()"), std::string::npos) << leak.evidence.back();
  EXPECT_NE(leak.advice.find("no_grad"), std::string::npos) << leak.advice;
}

// Every line keeps one tensor; what the activation took in is freed all the same.
TEST(retained, a_graph_on_several_lines_is_no_pile_of_results) {
  Story story;
  const Line hidden = story.line("train.py", 24, "watch"), probe = story.line("train.py", 25, "watch");
  for (int i = 0; i < 150; ++i) {
    story.keep(story.at(story.line("train.py", 29), "randn"), kTensor);
    story.pass(story.in_forward(hidden, "addmm"), 2 * kTensor);
    story.keep(story.at(hidden, "relu"), 2 * kTensor);
    story.keep(story.in_forward(probe, "addmm"), kTensor);
    story.pass(story.in_forward(probe, "square"), kTensor);
    story.step();
  }
  EXPECT_EQ(said(story.end()), "retained-intermediates/leak");
}

TEST(retained, a_few_gradients_among_them_are_no_graph_of_gradients) {
  Story story;
  Model model(story);
  for (int i = 0; i < 100; ++i) {
    model.forward(true);
    story.keep(story.in_backward(model.call, "AddmmBackward0"), kTensor / 8);
    story.backward_pass();
    story.step();
  }
  const Finding leak = finding(story.end(), "retained-intermediates");
  EXPECT_EQ(leak.evidence.back().find("create_graph"), std::string::npos) << leak.evidence.back();
}

TEST(retained, a_leak_that_starts_late_is_found) {
  Story story;
  Model model(story);
  for (int i = 0; i < 200; ++i) {
    const Story::BlockId out = model.forward(true);
    if (i < 140) model.backward(), story.free(out);
  }
  EXPECT_EQ(said(story.end()), "retained-intermediates/leak");
}

TEST(retained, one_output_an_iteration_is_a_result) {
  Story story;
  Model model(story);
  for (int i = 0; i < 200; ++i) model.forward(false);
  const Heap heap = story.end();
  EXPECT_EQ(said(heap), "retained-results/leak");
  EXPECT_EQ(finding(heap, "retained-results").blocks, 200u);
}

TEST(retained, outputs_and_labels_are_results) {
  Story story;
  Model model(story);
  for (int i = 0; i < 200; ++i) {
    model.forward(false);
    story.keep(story.at(story.line("data.py", 20, "labels"), "randint"), kTensor);
  }
  EXPECT_EQ(said(story.end()), "retained-results/leak");
}

TEST(retained, a_growing_concatenation_is_a_result) {
  Story story;
  Model model(story);
  const Line cat = story.line("train.py", 40);
  Story::BlockId all = story.alloc(story.at(cat, "cat"), kTensor);
  for (uint64_t i = 2; i < 150; ++i) {
    story.free(model.forward(false));
    const Story::BlockId larger = story.alloc(story.at(cat, "cat"), i * kTensor);
    story.free(all);
    all = larger;
  }
  EXPECT_EQ(said(story.end()), "retained-results/leak");
}

TEST(retained, lengthening_inputs_are_no_leak) {
  Story story;
  Model model(story);
  std::vector<Story::BlockId> last;
  for (uint64_t i = 1; i < 150; ++i) {
    std::vector<Story::BlockId> now;
    for (int layer = 0; layer < 4; ++layer) now.push_back(story.alloc(story.at(story.line("train.py", 50 + layer), "mul"), i * kKiB));
    for (const Story::BlockId block : last) story.free(block);
    last = now;
  }
  EXPECT_FALSE(says_leak(story.end())) << said(story.end());
}

TEST(retained, the_one_output_kept_of_lengthening_inputs_is_no_leak) {
  Story story;
  Model model(story);
  Story::BlockId out = 0;
  for (uint64_t i = 1; i < 150; ++i) {
    for (int layer = 0; layer < 4; ++layer) story.pass(story.at(story.line("train.py", 50 + layer), "mul"), i * kKiB);
    const Story::BlockId next = story.alloc(story.at(story.line("train.py", 60), "mul"), i * kKiB);
    if (out != 0) story.free(out);
    out = next;
  }
  EXPECT_FALSE(says_leak(story.end())) << said(story.end());
}

TEST(retained, kept_losses_are_at_most_an_info) {
  Story story;
  Model model(story);
  for (int i = 0; i < 2000; ++i) {
    story.free(model.forward(false));
    story.keep(story.at(story.line("train.py", 33), "mean"), 512);
  }
  EXPECT_EQ(said(story.end()), "retained-results/info");
}

TEST(retained, a_list_emptied_each_epoch_is_bounded) {
  Story story;
  Model model(story);
  for (int epoch = 0; epoch < 8; ++epoch) {
    std::vector<Story::BlockId> outputs;
    for (int i = 0; i < 40; ++i) outputs.push_back(model.forward(false)), story.step();
    for (const Story::BlockId block : outputs) story.free(block);
  }
  EXPECT_EQ(said(story.end()), "retained-results/info");
}

TEST(retained, an_unfinished_last_epoch_is_no_leak) {
  Story story;
  Model model(story);
  std::vector<Story::BlockId> outputs;
  for (int i = 0; i < 200; ++i) {
    if (i % 60 == 0) {
      for (const Story::BlockId block : outputs) story.free(block);
      outputs.clear();
    }
    outputs.push_back(model.forward(false));
    story.step();
  }
  EXPECT_FALSE(says_leak(story.end())) << said(story.end());
}

TEST(retained, a_bounded_cache_is_no_leak) {
  Story story;
  Model model(story);
  std::deque<Story::BlockId> cache;
  for (int i = 0; i < 300; ++i) {
    cache.push_back(model.forward(false));
    if (cache.size() > 100) story.free(cache.front()), cache.pop_front();
    story.step();
  }
  EXPECT_FALSE(says_leak(story.end())) << said(story.end());
}

TEST(retained, a_data_set_loaded_at_the_start_is_no_leak) {
  Story story;
  Model model(story);
  for (int i = 0; i < 500; ++i) story.keep(story.at(story.line("data.py", 9, "load"), "randn"), kTensor);
  for (int i = 0; i < 30; ++i) story.free(model.forward(false));
  EXPECT_FALSE(says_leak(story.end())) << said(story.end());
}

TEST(retained, gradient_accumulation_is_no_leak) {
  Story story;
  Model model(story);
  std::vector<Story::BlockId> kept;
  for (int i = 0; i < 240; ++i) {
    model.forward(true);
    kept.insert(kept.end(), model.saved.begin(), model.saved.end());
    if (i % 3 != 2) continue;
    for (const Story::BlockId block : kept) story.free(block);
    kept.clear();
    story.backward_pass();
    story.step();
  }
  EXPECT_FALSE(says_leak(story.end())) << said(story.end());
}

TEST(retained, gradients_that_pile_up_alone_are_unknown_growth) {
  Story story;
  Model model(story);
  for (int i = 0; i < 100; ++i) {
    story.free(model.forward(false));
    story.keep(story.in_backward(model.call, "MulBackward0"), kTensor);
    story.backward_pass();
    story.step();
  }
  EXPECT_EQ(said(story.end()), "unknown-growth/leak");
}

TEST(retained, outputs_tied_to_their_context_go_in_bursts) {
  Story story;
  const Line apply = story.line("exp.py", 12);
  const Line forward = story.line("exp.py", 6, "Exp.forward", apply);
  std::vector<Story::BlockId> tied;
  for (int i = 0; i < 200; ++i) {
    tied.push_back(story.alloc(story.at(forward, "exp"), kTensor));
    if (i % 100 != 99) continue;
    for (const Story::BlockId block : tied) story.free(block);
    tied.clear();
  }
  EXPECT_EQ(said(story.end()), "retained-intermediates/leak");
}

}  // namespace
}  // namespace vramtrack
