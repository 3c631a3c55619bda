// The sections of the text report, each written to a page. render_text() says in which order.
#pragma once

#include "report/render/page.h"
#include "report/render/source_line.h"
#include "report/render/text.h"

namespace vramtrack {

struct TextContext {
  Page& page;
  const TextOptions& options;
  SourceLines& sources;
};

void write_process_heading(TextContext&, const ReportedProcess&);
void write_finding(TextContext&, const Heap&, const Finding&);
void write_ledger(TextContext&, const Heap&);
void write_handles(TextContext&, const Heap&);
void write_top_sites(TextContext&, const Heap&);
void write_unseen(TextContext&, const Heap&);

// "train.py:31", relative to the base directory where it lies below it; "" without a file.
std::string place_text(const TextOptions&, const std::string& file, int line);

}  // namespace vramtrack
