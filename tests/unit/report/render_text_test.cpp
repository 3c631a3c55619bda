// The text report: what a person reads, at which width, and that no name can command the terminal.
#include "report/render/text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "report/render/printable.h"
#include "report/render/stack_lines.h"
#include "report/words.h"
#include "tests/unit/report/render_test_heap.h"

namespace vramtrack {
namespace {

std::string rendered(const ReportedProcess& process, TextOptions options = {}) {
  options.base_directory = "/home/me";
  return render_text(std::span(&process, 1), options);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(RenderText, finding_comes_before_ledger_before_sites) {
  std::string text = rendered(test::leaking_process());
  size_t finding = text.find("LEAK  Results are kept"), ledger = text.find("Memory of this process on cuda:0"),
         sites = text.find("At the peak of PyTorch's tensors");
  ASSERT_NE(finding, std::string::npos);
  EXPECT_LT(finding, ledger);
  EXPECT_LT(ledger, sites);
  EXPECT_LT(sites, text.size());
}

TEST(RenderText, finding_says_size_rate_line_evidence_and_advice) {
  std::string text = rendered(test::leaking_process());
  EXPECT_TRUE(has(text, "1.0 MiB in 312 blocks, 3.3 KiB more each step, steps 2 to 312")) << text;
  EXPECT_TRUE(has(text, "train.py:31  in evaluate"));
  EXPECT_TRUE(has(text, "- one block of 3.3 KiB in each step"));
  EXPECT_TRUE(has(text, "Keep `.item()`."));
  EXPECT_FALSE(has(text, "/home/me/train.py"));
}

TEST(RenderText, library_frames_are_folded) {
  ReportedProcess process = test::leaking_process();
  std::vector<StackLine> lines = fold_stack(process.heap, {0, 0, 1, 2, 0});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].function, "... 2 frames of torch");
  EXPECT_EQ(lines[1].function, "evaluate");
  EXPECT_EQ(lines[2].line, 80);
}

TEST(RenderText, no_finding_is_said_with_what_was_not_seen) {
  ReportedProcess process = test::leaking_process();
  process.findings.clear();
  process.heap.process.notes = {"Python 3.15 is not supported: stacks have no Python frames"};
  std::string text = rendered(process);
  EXPECT_TRUE(has(text, "No leak and no waste was found."));
  EXPECT_TRUE(has(text, "Python 3.15 is not supported"));
}

TEST(RenderText, no_line_is_wider_than_the_page) {
  ReportedProcess process = test::leaking_process();
  process.findings[0].title = std::string(300, 'x') + " " + std::string(200, 'y');
  process.findings[0].evidence = {std::string(500, 'e')};
  process.heap.frames[1].locations[0] = {std::string(200, 'f'), "/" + std::string(300, 'd') + "/t.py", 31};
  process.heap.process.argv = {std::string(1000, 'a')};
  for (size_t width : {50, 80, 100, 120}) {
    TextOptions options;
    options.width = width;
    std::istringstream lines(rendered(process, options));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), width) << line;
  }
}

TEST(RenderText, children_with_nothing_found_are_one_line) {
  std::vector<ReportedProcess> processes(3, test::leaking_process());
  for (size_t i : {1, 2}) {
    processes[i].findings.clear();
    processes[i].heap.process.pid = 5000 + static_cast<int>(i);
    processes[i].heap.process.ppid = 4242;
  }
  const std::string text = render_text(processes, {});
  EXPECT_TRUE(has(text, "Also recorded, and no leak or waste found: 2 child processes (pid 5001, 5002), at most 1.0 MiB")) << text;
  EXPECT_FALSE(has(text, "pid 5001,  "));
  EXPECT_EQ(text.find("vramtrack  python"), text.rfind("vramtrack  python"));
  processes[2].heap.damage = {"blocks: 3 of 9 records lie outside the file"};  // now there is something to say of it
  EXPECT_TRUE(has(render_text(processes, {}), "a child process (pid 5001)"));
}

TEST(RenderText, sites_that_read_alike_are_one_entry) {
  ReportedProcess process = test::leaking_process();
  Site other = process.heap.sites[0];
  other.id = 2;
  other.stack = {0, 0, 1, 2};  // one more frame of torch
  process.heap.sites.push_back(other);
  process.findings[0].sites.push_back({2, {0, 1, 2}, 1 << 20, 312, 312, 0, "activation"});
  EXPECT_TRUE(has(rendered(process), "2.0 MiB in 624 blocks at 2 sites, activation, 624 allocated, none freed"));
}

TEST(RenderText, code_without_names_is_an_address_in_its_module) {
  ReportedProcess process = test::leaking_process();
  process.heap.modules.push_back({});
  process.heap.modules.back().path = "/home/me/app";
  process.heap.modules.back().load_bias = 0x4000;
  process.heap.frames.push_back({FrameKind::kNative, 0x4124, 1, {}});
  process.findings[0].sites[0].stack = process.heap.sites[0].stack = {3};
  EXPECT_TRUE(has(rendered(process), "in app+0x123")) << rendered(process);
}

TEST(RenderText, names_cannot_command_the_terminal) {
  ReportedProcess process = test::leaking_process();
  std::string evil = "\x1b]0;owned\x07\r\n\xc2\x9b\xe2\x80\xae\xff";
  process.heap.frames[1].locations[0] = {evil, "/home/" + evil, 31};
  process.heap.process.argv = {evil};
  process.heap.spaces[0].name = evil;
  process.findings[0].title = process.findings[0].advice = evil;
  process.findings[0].evidence = {evil};
  std::string text = rendered(process);
  for (const char* part : {"\x1b", "\x07", "\r", "\xc2\x9b", "\xe2\x80\xae", "\xff"}) EXPECT_FALSE(has(text, part));
  EXPECT_TRUE(has(text, "\\x1b]0;owned\\x07"));
}

TEST(RenderText, color_only_when_wanted) {
  TextOptions options;
  EXPECT_FALSE(has(rendered(test::leaking_process(), options), "\x1b"));
  options.color = true;
  EXPECT_TRUE(has(rendered(test::leaking_process(), options), "\x1b[1;31mLEAK"));
}

TEST(Words, sizes_have_one_decimal) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_text(5.6e9), "5.2 GiB");
}

TEST(Printable, wraps_at_spaces_and_breaks_long_words) {
  EXPECT_EQ(wrap("aaaa bbbb cccc dddd", 10), (std::vector<std::string>{"aaaa bbbb", "cccc dddd"}));
  EXPECT_EQ(wrap(std::string(25, 'x'), 10).size(), 3u);
  EXPECT_EQ(wrap("", 10), (std::vector<std::string>{""}));
  EXPECT_EQ(cut_left("/very/long/path.py", 10), "...path.py");
  EXPECT_EQ(columns("\xc3\xa4\xe2\x82\xac"), 2u);
}

}  // namespace
}  // namespace vramtrack
