// Does a rank of a distributed program hold a context on a device that is not its own? Each takes hundreds of megabytes of a device that
// another rank wants to fill. It comes of a first CUDA call before the rank has chosen its device, or of loading a file's tensors to
// where they were saved.
//
// The look-alike is a rank that works on several devices: it has memory on all of them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"
#include "report/ledger.h"

namespace vramtrack {
namespace {

constexpr double kMostShare = 0.05;  // of what the rank holds on its own device

struct Device {
  uint64_t peak_bytes = 0;
  const Site* context = nullptr;  // where the first one was made
};

std::map<int, Device> devices_with_contexts(const Heap& heap) {
  std::map<int, Device> devices;
  for (const Site& site : heap.handles.sites) {
    if (site.kind != Kind::kContext || site.end_blocks == 0) continue;
    Device& device = devices[heap.handles.spaces[site.space].device];
    if (device.context == nullptr || site.first_serial < device.context->first_serial) device.context = &site;
  }
  for (const Space& space : heap.spaces) {
    if (space.memory != Memory::kDevice || !devices.contains(space.device)) continue;
    devices[space.device].peak_bytes = std::max(devices[space.device].peak_bytes, space.peak_bytes);
  }
  return devices;
}

// What its context takes there, where that was measured, and what little it allocates.
uint64_t used_on(const Heap& heap, const std::string& device) {
  const std::vector<LedgerRow> rows = ledger(heap);
  const auto row = std::ranges::find(rows, device, &LedgerRow::device);
  return row == rows.end() ? 0 : row->used_bytes;
}

Finding extra_context(const Heap& heap, int device, const Device& extra, int own, const Device& main) {
  const std::string name = fmt::format("cuda:{}", device);
  Finding finding;
  finding.id = "extra-context";
  finding.severity = Severity::kWaste;
  finding.confidence = Confidence::kMedium;
  finding.kind = Kind::kContext;
  finding.blocks = 1;
  finding.space = driver_space(heap, device);
  finding.bytes = used_on(heap, name);
  finding.title = fmt::format("Rank {} holds a context on {} as well, made at {}: its own device is cuda:{}", heap.process.rank, name,
                              place_text(heap, extra.context->stack), own);
  finding.evidence = {fmt::format("it never held more than {} on {}, but {} on cuda:{}", size_text(static_cast<double>(extra.peak_bytes)), name,
                                  size_text(static_cast<double>(main.peak_bytes)), own)};
  if (finding.bytes > 0) finding.evidence.push_back(fmt::format("{} of {} are taken for it", size_text(static_cast<double>(finding.bytes)), name));
  finding.advice = "Choose the device before the first CUDA call (`torch.cuda.set_device(local_rank)`), give `torch.load` a "
                   "`map_location`, or show each rank only its own device (CUDA_VISIBLE_DEVICES).";
  finding.sites.push_back({extra.context->id, extra.context->stack, finding.bytes, 1, extra.context->allocations, extra.context->frees, ""});
  return finding;
}

}  // namespace

std::vector<Finding> find_extra_contexts(Examination& exam) {
  std::vector<Finding> found;
  if (exam.heap.process.rank < 0) return found;
  const std::map<int, Device> devices = devices_with_contexts(exam.heap);
  if (devices.size() < 2) return found;
  const auto& [own, main] = *std::ranges::max_element(devices, {}, [](const auto& entry) { return entry.second.peak_bytes; });
  for (const auto& [device, extra] : devices) {
    const bool is_little = static_cast<double>(extra.peak_bytes) < kMostShare * static_cast<double>(main.peak_bytes);
    if (device != own && is_little) found.push_back(extra_context(exam.heap, device, extra, own, main));
  }
  return found;
}

}  // namespace vramtrack
