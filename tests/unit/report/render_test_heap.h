// A process with one leak, for the renderers.
#pragma once

#include "report/render/report.h"

namespace vramtrack::test {

inline ReportedProcess leaking_process() {
  ReportedProcess process;
  Heap& heap = process.heap;
  heap.process.pid = 4242;
  heap.process.argv = {"python", "train.py"};
  heap.process.ended = "exit:0";
  heap.process.duration = 41.8;
  heap.process.steps = 312;
  heap.process.step_source = StepSource::kOptimizer;

  Space space;
  space.layer = Layer::kPytorch;
  space.device = 0;
  space.name = "NVIDIA H200";
  space.live_bytes = space.peak_bytes = 1 << 20;
  space.live_blocks = 312;
  space.reserved_bytes = 3 << 20;
  space.series = {{1.0, 1, 10, 20, 30}};
  heap.spaces = {space};

  heap.modules.resize(1);
  heap.modules[0].path = "/x/site-packages/torch/lib/libtorch_cpu.so";
  heap.frames = {{FrameKind::kNative, 0x7f01, 0, {{"inlined", "", 0}, {"at::native::empty", "", 0}}},
                 {FrameKind::kPython, 0, -1, {{"evaluate", "/home/me/train.py", 31}}},
                 {FrameKind::kPython, 0, -1, {{"<module>", "/home/me/train.py", 80}}}};
  Site site;
  site.id = 1;
  site.stack = {0, 1, 2};
  site.allocations = site.live_blocks = site.end_blocks = site.peak_blocks = 312;
  site.live_bytes = site.end_bytes = site.peak_bytes = 1 << 20;
  heap.sites = {site};

  Finding finding;
  finding.id = "retained-results";
  finding.severity = Severity::kLeak;
  finding.confidence = Confidence::kHigh;
  finding.space = 0;
  finding.bytes = 1 << 20;
  finding.blocks = 312;
  finding.bytes_per_step = 3360.8;
  finding.first_step = 2;
  finding.last_step = 312;
  finding.title = "Results are kept";
  finding.evidence = {"one block of 3.3 KiB in each step"};
  finding.advice = "Keep `.item()`.";
  finding.sites = {{1, site.stack, 1 << 20, 312, 312, 0, "activation"}};
  process.findings = {finding};
  return process;
}

}  // namespace vramtrack::test
