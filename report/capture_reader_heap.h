// The heap in a capture whose header is known to be of this version.
#pragma once

#include "report/capture_reader_tables.h"
#include "report/heap.h"

namespace vramtrack::reader {

// Who the process is, how it ended, and what of it could not be seen: what the header says.
Process read_process(const HeaderCopy&, Strings&);

Heap read_heap(const Source&, const HeaderCopy&);

}  // namespace vramtrack::reader
