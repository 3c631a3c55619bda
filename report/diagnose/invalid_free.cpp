// Which frees were refused: freed twice, never allocated, or given to the wrong function?
#include <fmt/format.h>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

// Destructors of globals that run after the driver is gone are refused too; that harms nobody.
bool is_of_the_work(const Process& process, const Incident& incident) {
  return incident.kind == IncidentKind::kInvalidFree && (!process.work_ended || incident.serial <= process.work_ended_serial);
}

struct Words {
  std::string_view what, advice;
};

Words words_for(FreeFault fault) {
  switch (fault) {
    case FreeFault::kDoubleFree:
      return {"frees a block that was freed already", "Set the pointer to null when it is freed, or give the block one owner (RAII)."};
    case FreeFault::kWrongFamily:
      return {"gives a block to the free of another family, so it stays allocated",
              "Free each block with the function that belongs to its allocation: cudaMalloc with cudaFree, cudaMallocHost with "
              "cudaFreeHost, cudaMallocArray with cudaFreeArray."};
    case FreeFault::kGoneWithContext:
      return {"frees a block that went with its context before", "Free what a context holds before `cudaDeviceReset` or `cuCtxDestroy`, or "
              "drop the pointers with it."};
    case FreeFault::kUnknownPointer:
    case FreeFault::kNone: break;
  }
  return {"frees a pointer that no allocation returned",
          "Free exactly the pointer that was allocated: not one into the block, nor one of another device or library."};
}

Finding invalid_free(const Heap& heap, const Incident& incident) {
  const Words words = words_for(incident.fault);
  const Site* made = incident.allocated_by != 0 ? find_site(heap, incident.allocated_by) : nullptr;
  const bool stays = incident.fault == FreeFault::kWrongFamily;
  Finding finding;
  finding.id = "invalid-free";
  finding.severity = Severity::kLeak;
  finding.confidence = Confidence::kHigh;
  finding.space = incident.space >= 0 ? incident.space : made != nullptr ? made->space : -1;
  if (made != nullptr) finding.kind = made->kind;
  finding.bytes = stays ? incident.size * incident.count : 0;
  finding.blocks = stays ? incident.count : 0;
  finding.first_step = incident.first_step;
  finding.last_step = incident.last_step;
  finding.title = fmt::format("{} at {} {}", incident.api.empty() ? "A free" : incident.api, place_text(heap, incident.stack), words.what);
  finding.evidence = {fmt::format("refused {}, last for address {:#x}", count_text(incident.count, "time"), incident.address)};
  if (made != nullptr) {
    finding.evidence.push_back(fmt::format("the block was allocated at {}{}", place_text(heap, made->stack),
                                           made->api.empty() ? "" : " by " + made->api));
  }
  finding.advice = words.advice;
  finding.sites.push_back({0, incident.stack, finding.bytes, finding.blocks, 0, incident.count, ""});
  return finding;
}

}  // namespace

std::vector<Finding> find_invalid_frees(Examination& exam) {
  std::vector<Finding> found;
  for (const Incident& incident : exam.heap.incidents) {
    if (is_of_the_work(exam.heap.process, incident)) found.push_back(invalid_free(exam.heap, incident));
  }
  return found;
}

}  // namespace vramtrack
