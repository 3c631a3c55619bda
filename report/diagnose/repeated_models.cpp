// Is the same model built again and again, and do the old ones live on (leak) or die too late (waste)?
#include <fmt/format.h>

#include <algorithm>

#include "report/categories.h"
#include "report/diagnose/cohorts.h"
#include "report/diagnose/families.h"
#include "report/diagnose/survivors.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr size_t kFewestBuilds = 3;       // two models of one kind are a pair (student and teacher, online and target)
constexpr size_t kSureBuilds = 5;
constexpr double kWorthAWord = 0.05;      // of the peak: a smaller model built too early is not worth a change
constexpr double kRoundsWithout = 2;        // a model: what was built in the rounds before was for the run
constexpr double kOncePerModel = 1.25;    // births per model up to which a site's growth follows the models, not the steps

std::string built_at(const Heap& heap, const Cohort& cohort) { return call_text(heap, cohort.built_at); }

// What backward passes and the optimizer leave behind is as many for every model; the last one may have let go of its own.
bool is_as_many_for_every_model(uint64_t blocks, const Cohort& cohort) {
  return blocks % cohort.builds == 0 || blocks % (cohort.builds - 1) == 0;
}

// Gradients, moments and buffers that live on because their model does: born once a model, not once a step.
bool lives_with_its_model(const Examination& exam, SiteIndex i, const Cohort& cohort) {
  const Site& site = exam.heap.sites[i];
  const Phase made = phase(exam.heap, site.stack);
  const bool follows_parameters = made == Phase::kBackward || made == Phase::kOptimizer;
  if (follows_parameters && is_as_many_for_every_model(held_blocks(exam, i), cohort)) return true;
  const std::string_view what = category(exam.heap, site);
  if (what == "gradient" || what == "optimizer state") return true;
  return births_of(site).iterations <= static_cast<size_t>(kOncePerModel * cohort.builds);
}

std::vector<SiteIndex> with_all_that_lives_on(const Examination& exam, int space, const Cohort& cohort) {
  std::vector<SiteIndex> sites = cohort.sites;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Growth& growth = exam.growth[i];
    const bool grows = growth.shape == Shape::kRising || (growth.shape == Shape::kFlat && growth.rises >= 2);
    const bool is_open = !exam.explained[i] && exam.heap.sites[i].space == space && std::ranges::count(cohort.sites, i) == 0;
    if (is_open && grows && lives_with_its_model(exam, i, cohort)) sites.push_back(i);
  }
  return sites;
}

uint64_t bytes_of(const Finding& finding, std::string_view category) {
  uint64_t bytes = 0;
  for (const FindingSite& site : finding.sites) bytes += site.category == category ? site.bytes : 0;
  return bytes;
}

// The sites that make parameters first: they name the line where the model is built.
void put_parameters_first(Finding& finding) {
  std::ranges::stable_partition(finding.sites, [](const FindingSite& site) { return site.category == "parameter"; });
}

// By the rhythm in which they were built more would have come: it was not one in each round.
bool is_over(const Examination& exam, const Cohort& cohort) {
  std::vector<const Site*> merged;
  for (SiteIndex i : cohort.sites) merged.push_back(&exam.heap.sites[i]);
  const Births births = births_of(merged);
  const double one_round = static_cast<double>(births.last_serial - births.first_serial) / static_cast<double>(cohort.builds - 1);
  const double since = static_cast<double>(exam.heap.process.allocations) - static_cast<double>(births.last_serial);
  return births.blocks > 0 && since > kRoundsWithout * one_round;
}

// Parameters that belong to no model of the cohort: a body to which heads are added.
bool others_live_on(const Examination& exam, int space, const Cohort& cohort) {
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    const bool is_other = site.space == space && std::ranges::count(cohort.sites, i) == 0;
    if (is_other && site.end_bytes > 0 && exam.growth[i].shape == Shape::kFlat && category(exam.heap, site) == "parameter") return true;
  }
  return false;
}

Finding kept_models(Examination& exam, int space, const Cohort& cohort) {
  const std::vector<SiteIndex> sites = with_all_that_lives_on(exam, space, cohort);
  const bool beside_others = others_live_on(exam, space, cohort);
  const Confidence sure = cohort.builds >= kSureBuilds && !beside_others ? Confidence::kHigh : Confidence::kMedium;
  Finding finding = make_finding(exam, "repeated-model-construction", Severity::kLeak, sure, shares_held(exam, sites));
  put_parameters_first(finding);
  finding.title = fmt::format("{} models built at {} are all still alive", cohort.builds, built_at(exam.heap, cohort));
  finding.evidence.push_back(fmt::format("the same parameters were allocated {} times through the run, {} each time, and none of "
                                         "them went", cohort.builds, size_text(cohort.bytes_each)));
  const uint64_t gradients = bytes_of(finding, "gradient"), moments = bytes_of(finding, "optimizer state");
  if (gradients + moments > 0) {
    const std::string of_gradients = gradients > 0 ? size_text(gradients) + " of gradients" : "";
    const std::string of_moments = moments > 0 ? size_text(moments) + " of optimizer state" : "";
    finding.evidence.push_back(fmt::format("with them live on {}{}{}", of_gradients,
                                           gradients > 0 && moments > 0 ? " and " : "", of_moments));
  }
  if (is_over(exam, cohort)) {
    finding.severity = Severity::kInfo;
    finding.confidence = Confidence::kMedium;
    finding.title = fmt::format("{} models built at {} live side by side", cohort.builds, built_at(exam.heap, cohort));
    finding.evidence.push_back("none was built in a long last part of the run: an ensemble, or copies kept on purpose");
    finding.advice = "Nothing to fix if all of them are used; else `del` those that are not.";
    return finding;
  }
  if (beside_others) finding.evidence.push_back("other parameters were made once and live on: a part may be added on purpose");
  finding.evidence.push_back(rate_text(exam.heap, finding));
  finding.advice = "Find what still refers to the old models (an optimizer or scheduler kept in a list, a closure, a registry, "
                   "`lru_cache`): build the model once outside the loop, or `del` it and its optimizer before the next one is "
                   "built; give a cache a bound.";
  return finding;
}

bool peak_holds_two(const Examination& exam, const Cohort& cohort) {
  uint64_t at_peak = 0;
  for (SiteIndex i : cohort.sites) at_peak += exam.heap.sites[i].peak_bytes;
  return static_cast<double>(at_peak) >= 1.8 * cohort.bytes_each;
}

Finding overlapping_models(Examination& exam, const Cohort& cohort) {
  std::vector<Share> shares;
  for (SiteIndex i : cohort.sites) {
    const Site& site = exam.heap.sites[i];
    shares.push_back({i, site.max_live_bytes / 2, site.max_live_blocks / 2});
  }
  const bool at_peak = peak_holds_two(exam, cohort);
  Finding finding = make_finding(exam, "repeated-model-construction", Severity::kWaste,
                                 at_peak ? Confidence::kHigh : Confidence::kMedium, std::move(shares));
  finding.bytes_per_step = 0;
  finding.title = fmt::format("The old model dies only after the new one was built at {}", built_at(exam.heap, cohort));
  finding.evidence = {fmt::format("parameters of {} stand at {} while the next model is built", size_text(cohort.bytes_each),
                                  size_text(2 * cohort.bytes_each)),
                      at_peak ? "the peak of the run holds both" : "the peak of the run lies elsewhere: it would not fall by this much"};
  finding.advice = "`del` the old model and its optimizer before the next one is built, or build it once and load new weights "
                   "into it.";
  return finding;
}

}  // namespace

std::vector<Finding> find_repeated_models(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;
    const std::optional<Cohort> kept = growing_cohort(exam, space);
    if (kept && kept->builds >= kFewestBuilds && is_worth_a_leak(exam.heap, space, kept->bytes_each * kept->builds)) {
      found.push_back(kept_models(exam, space, *kept));
    }
    const std::optional<Cohort> overlapping = overlapping_cohort(exam, space);
    const double peak = static_cast<double>(exam.heap.spaces[space].peak_bytes);
    if (overlapping && overlapping->bytes_each >= kWorthAWord * peak) found.push_back(overlapping_models(exam, *overlapping));
  }
  return found;
}

}  // namespace vramtrack
