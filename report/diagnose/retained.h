// Are the tensors that pile up a kept graph's intermediates, or results kept one by one?
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "report/diagnose/examination.h"
#include "report/diagnose/survivors.h"

namespace vramtrack {

// Sites of one space that only pile up, sorted by what they are.
struct Piles {
  std::vector<SiteIndex> tensors;      // blocks that matter
  std::vector<SiteIndex> scalars;      // blocks of a few numbers: losses, counters
  std::vector<SiteIndex> growing_one;  // one block that is replaced by a larger one: a growing concatenation
};

Piles sort_piles(const Examination&, std::span<const SiteIndex>);

// The user's lines on which layers ran. A function applied to a layer's output there, as in torch.relu(layer(x)), is as good as
// a layer.
std::set<std::string> lines_with_layers(const Heap&);

// Births of that site of these whose iterations take ever longer because their backward passes do: each goes through what all
// iterations before it left, so they hang together in one graph. None: there is no such site.
std::optional<Births> lengthening_graph(const Examination&, std::span<const SiteIndex>);

// A graph is kept when one line of forward code leaves more behind than the one result it has to give, or when it gets longer.
bool are_intermediates(const Examination&, std::span<const SiteIndex>);

// Of sites of one space with one block that is replaced by a larger one each iteration: those that are appended to, not computed
// from an input that gets longer.
std::vector<SiteIndex> concatenations(const Examination&, std::span<const SiteIndex>);

// Allocated back to back, with nothing in between and something after: a data set or a pool, made before it was used. So are those
// that the program freed a while before it ended: it needed them no longer.
bool were_made_in_one_go(const Examination&, std::span<const SiteIndex>);

}  // namespace vramtrack
