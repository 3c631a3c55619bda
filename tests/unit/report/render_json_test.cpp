// The JSON report against its schema, read back by a JSON parser.
#include "report/render/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/report/render_test_heap.h"

namespace vramtrack {
namespace {

using nlohmann::json;

json rendered(const ReportedProcess& process, const JsonOptions& options = {}) {
  return json::parse(render_json(std::span(&process, 1), options));
}

TEST(RenderJson, has_every_field_of_the_schema) {
  json report = rendered(test::leaking_process());
  EXPECT_EQ(report["schema"], "vramtrack.report/1");
  json process = report["processes"][0];
  for (const char* field : {"pid", "ppid", "argv", "exe", "host", "rank", "start_time", "duration", "ended", "steps", "step_source",
                            "complete", "lost", "devices", "findings", "sites", "timeline", "events"}) {
    EXPECT_TRUE(process.contains(field)) << field;
  }
  for (const char* field : {"live_bytes", "cached_bytes", "fragmented_bytes", "context_bytes", "imported_bytes",
                            "unattributed_bytes", "used_bytes"}) {
    EXPECT_TRUE(process["devices"][0]["ledger"].contains(field)) << field;
  }
  for (const char* field : {"id", "severity", "confidence", "device", "layer", "kind", "bytes", "blocks", "bytes_per_step",
                            "first_step", "last_step", "title", "evidence", "advice", "sites", "holders"}) {
    EXPECT_TRUE(process["findings"][0].contains(field)) << field;
  }
  for (const char* field : {"bytes", "blocks", "allocations", "frees", "category", "stack"}) {
    EXPECT_TRUE(process["findings"][0]["sites"][0].contains(field)) << field;
  }
}

TEST(RenderJson, inlined_functions_are_frames_of_their_own_innermost_first) {
  json stack = rendered(test::leaking_process())["processes"][0]["findings"][0]["sites"][0]["stack"];
  ASSERT_EQ(stack.size(), 4u);
  EXPECT_EQ(stack[0]["function"], "inlined");
  EXPECT_EQ(stack[1]["module"], "libtorch_cpu.so");
  EXPECT_EQ(stack[1]["address"], "0x7f01");
  EXPECT_EQ(stack[2]["kind"], "python");
  EXPECT_EQ(stack[2]["line"], 31);
}

TEST(RenderJson, places_of_handles_are_told) {
  ReportedProcess process = test::leaking_process();
  Site stream = process.heap.sites[0];
  stream.kind = Kind::kStream;
  stream.allocations = 5, stream.frees = 2, stream.end_blocks = 3;
  process.heap.handles.spaces = {process.heap.spaces[0]};
  process.heap.handles.sites = {stream};
  const auto sites = nlohmann::json::parse(render_json(std::span(&process, 1), {}))["processes"][0]["handle_sites"];
  ASSERT_EQ(sites.size(), 1u);
  EXPECT_EQ(sites[0]["kind"], "stream");
  EXPECT_EQ(sites[0]["live"], 3);
  EXPECT_EQ(sites[0]["user_line"]["line"], 31);
}

TEST(RenderJson, rates_are_whole_bytes) {
  EXPECT_EQ(rendered(test::leaking_process())["processes"][0]["findings"][0]["bytes_per_step"], 3361);
}

TEST(RenderJson, names_that_are_no_text_stay_valid_json) {
  ReportedProcess process = test::leaking_process();
  process.heap.frames[1].locations[0].function = std::string("a\xff\x1b[31m\0b", 9);
  process.heap.process.argv = {"\xed\xa0\x80"};
  json report = rendered(process);
  EXPECT_EQ(report["processes"][0]["argv"].size(), 1u);
}

TEST(RenderJson, damage_makes_a_report_incomplete) {
  ReportedProcess process = test::leaking_process();
  EXPECT_TRUE(rendered(process)["processes"][0]["complete"]);
  process.heap.damage = {"blocks: 3 of 9 records lie outside the file, dropped"};
  json read = rendered(process)["processes"][0];
  EXPECT_FALSE(read["complete"]);
  EXPECT_NE(read["lost"]["reason"], "");
}

TEST(RenderJson, selection_filters_findings_and_sites) {
  JsonOptions options;
  options.selection.device = "cuda:1";
  json process = rendered(test::leaking_process(), options)["processes"][0];
  EXPECT_TRUE(process["findings"].empty());
  EXPECT_TRUE(process["sites"].empty());
}

}  // namespace
}  // namespace vramtrack
