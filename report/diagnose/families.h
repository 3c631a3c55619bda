// The families of findings. Each is a pure function of a heap and of what the families before it explained; each is tested
// for its finding and for its look-alikes. diagnose.cpp lists them in the order in which they are asked.
#pragma once

#include "report/diagnose/examination.h"

namespace vramtrack {

std::vector<Finding> find_settled_growth(Examination&);       // warm_up.cpp: warm-up
std::vector<Finding> find_custom_function_cycles(Examination&);  // custom_function.cpp: retained-intermediates
std::vector<Finding> find_bounded_accumulation(Examination&); // bounded.cpp: retained-results/info
std::vector<Finding> find_joined_results(Examination&);       // bounded.cpp: retained-results/info
std::vector<Finding> find_repeated_models(Examination&);      // repeated_models.cpp: repeated-model-construction
std::vector<Finding> find_retained_tensors(Examination&);     // retained.cpp: retained-intermediates, retained-results
std::vector<Finding> find_stale_intermediates(Examination&);  // stale.cpp: stale-intermediates
std::vector<Finding> find_forgotten_frees(Examination&);      // forgotten_free.cpp: forgotten-free, pinned-growth, graph-memory, per-thread-growth
std::vector<Finding> find_never_freed(Examination&);          // never_freed.cpp: never-freed
std::vector<Finding> find_invalid_frees(Examination&);        // invalid_free.cpp: invalid-free
std::vector<Finding> find_handle_leaks(Examination&);         // handle_leak.cpp: handle-leak
std::vector<Finding> find_unattributed_growth(Examination&);  // unattributed.cpp: unattributed-growth
std::vector<Finding> find_allocation_churn(Examination&);     // churn.cpp: allocation-churn
std::vector<Finding> find_unknown_growth(Examination&);       // unknown_growth.cpp: unknown-growth
std::vector<Finding> find_preallocations(Examination&);       // preallocation.cpp: preallocation
std::vector<Finding> find_unused_cache(Examination&);         // cached.cpp: cached-unused
std::vector<Finding> find_fragmentation(Examination&);        // cached.cpp: fragmentation
std::vector<Finding> find_stranded_streams(Examination&);     // stranded_stream.cpp: stranded-stream
std::vector<Finding> find_idle_pools(Examination&);           // idle_pools.cpp: pool-threshold, cached-unused
std::vector<Finding> find_extra_contexts(Examination&);       // extra_context.cpp: extra-context

// Those that look at what the others found. host_growth.cpp: host-growth, only where nothing leaks.
std::vector<Finding> find_host_growth(const Examination&, const std::vector<Finding>& found);

// out_of_memory.cpp: out-of-memory. Comes last: it names the finding that filled the device.
std::vector<Finding> find_out_of_memory(const Examination&, const std::vector<Finding>& found);

}  // namespace vramtrack
