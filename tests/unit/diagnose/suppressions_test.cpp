// Which findings a list of suppressions takes out.
#include "report/diagnose/suppressions.h"

#include <gtest/gtest.h>

namespace vramtrack {
namespace {

// One leak with a site for each function.
struct Example {
  Heap heap;
  std::vector<Finding> findings;

  explicit Example(std::vector<std::string> functions) {
    findings.resize(1);
    findings[0].id = "retained-results";
    findings[0].severity = Severity::kLeak;
    for (const std::string& function : functions) {
      Frame frame;
      frame.locations = {{function, "/src/eval/" + function + ".py", 1}};
      findings[0].sites.push_back({0, {static_cast<uint32_t>(heap.frames.size())}});
      heap.frames.push_back(frame);
    }
  }
};

size_t suppressed(Example example, const std::string& list) {
  auto rules = parse_suppressions(list, "list");
  EXPECT_TRUE(std::holds_alternative<std::vector<Suppression>>(rules)) << std::get<std::string>(rules);
  return suppress(std::get<std::vector<Suppression>>(rules), example.heap, example.findings);
}

TEST(Suppressions, by_id_and_by_severity) {
  EXPECT_EQ(suppressed(Example({"f"}), "retained-results\n"), 1u);
  EXPECT_EQ(suppressed(Example({"f"}), "leak"), 1u);
  EXPECT_EQ(suppressed(Example({"f"}), "waste\nforgotten-free\n"), 0u);
}

TEST(Suppressions, by_part_of_function_or_file) {
  EXPECT_EQ(suppressed(Example({"load_weights"}), "leak:load_"), 1u);
  EXPECT_EQ(suppressed(Example({"f"}), "retained-results:eval/*.py"), 1u);
  EXPECT_EQ(suppressed(Example({"f"}), "leak:other"), 0u);
}

TEST(Suppressions, the_place_that_is_named_must_match) {
  EXPECT_EQ(suppressed(Example({"known", "other"}), "leak:known"), 1u);
  EXPECT_EQ(suppressed(Example({"new", "known"}), "leak:known"), 0u);
}

TEST(Suppressions, comments_and_blank_lines) {
  EXPECT_EQ(suppressed(Example({"f"}), "# ours\n\n  leak:f   # ticket 12\r\n"), 1u);
}

TEST(Suppressions, broken_rule_names_its_line) {
  auto rules = parse_suppressions("leak\nleak:\n", "s.txt");
  EXPECT_EQ(std::get<std::string>(rules), "s.txt:2: not a suppression: expected `finding-id` or `finding-id:pattern`");
}

}  // namespace
}  // namespace vramtrack
