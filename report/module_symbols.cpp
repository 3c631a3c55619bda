// What one object file says about some of its addresses: functions, lines, inlined calls.
#include "report/module_symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>

#include "report/words.h"

namespace vramtrack {
namespace {

// One object file open in libdwfl, alone in its address space and at the addresses it was linked for.
class ObjectFile {
 public:
  ObjectFile(const std::string& path, const std::string& debug_path)
      : search_path_(debug_path.empty() ? ":.debug:/usr/lib/debug"
                                        : fmt::format("{0}:{0}/usr/lib/debug::.debug:/usr/lib/debug", debug_path)) {
    search_path_pointer_ = search_path_.data();
    callbacks_.find_elf = dwfl_build_id_find_elf;
    callbacks_.find_debuginfo = dwfl_standard_find_debuginfo;
    callbacks_.section_address = dwfl_offline_section_address;
    callbacks_.debuginfo_path = &search_path_pointer_;
    session_.reset(dwfl_begin(&callbacks_));
    if (!session_) return;
    module_ = dwfl_report_elf(session_.get(), path.c_str(), path.c_str(), -1, 0, true);
    dwfl_report_end(session_.get(), nullptr, nullptr);
  }

  Dwfl_Module* module() const { return module_; }

 private:
  std::string search_path_;
  char* search_path_pointer_ = nullptr;
  Dwfl_Callbacks callbacks_ = {};
  std::unique_ptr<Dwfl, decltype(&dwfl_end)> session_{nullptr, &dwfl_end};
  Dwfl_Module* module_ = nullptr;  // owned by the session
};

std::string build_id_of(Dwfl_Module* module) {
  const unsigned char* bits = nullptr;
  GElf_Addr address = 0;
  int size = dwfl_module_build_id(module, &bits, &address);
  std::string hex;
  for (int i = 0; i < size; ++i) hex += fmt::format("{:02x}", bits[i]);
  return hex;
}

// --- functions, from the symbol tables -----------------------------------------------------------------------------------

// Libraries have hundreds of thousands of symbols and a stack meets few of them: so the addresses are sorted, and each symbol
// looks for them. (dwfl_module_addrname goes through all symbols once for every address.)
class SymbolSearch {
 public:
  explicit SymbolSearch(std::span<const uint64_t> addresses) : addresses_(addresses), order_(addresses.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::sort(order_, {}, [&](size_t i) { return addresses_[i]; });
    names_.resize(addresses.size());
    starts_.resize(addresses.size());
  }

  void go_through(Dwfl_Module* module) {
    int count = dwfl_module_getsymtab(module);
    for (int i = 1; i < count; ++i) {
      GElf_Sym symbol;
      GElf_Addr address = 0;
      const char* name = dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
      int type = GELF_ST_TYPE(symbol.st_info);
      bool is_code = (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF && symbol.st_size != 0;
      if (name != nullptr && is_code) offer(name, address, symbol.st_size, GELF_ST_BIND(symbol.st_info) == STB_GLOBAL);
    }
  }

  // Null: no symbol covers it.
  const char* name(size_t i) const { return names_[i]; }

 private:
  // The innermost symbol names an address; of several with one beginning, the one that the world knows.
  void offer(const char* name, uint64_t begin, uint64_t size, bool is_global) {
    auto at = std::ranges::lower_bound(order_, begin, {}, [&](size_t i) { return addresses_[i]; });
    for (; at != order_.end() && addresses_[*at] - begin < size; ++at) {
      bool has_better = names_[*at] != nullptr && (starts_[*at] > begin || (starts_[*at] == begin && !is_global));
      if (has_better) continue;
      names_[*at] = name;
      starts_[*at] = begin;
    }
  }

  std::span<const uint64_t> addresses_;
  std::vector<size_t> order_;  // indices of addresses_, ascending by address
  std::vector<const char*> names_;
  std::vector<uint64_t> starts_;
};

// --- lines and inlined calls, from DWARF ---------------------------------------------------------------------------------

std::string text(const char* name) { return name == nullptr ? std::string() : std::string(name); }

Dwarf_Die* compilation_unit(Dwfl_Module* module, uint64_t address, Dwarf_Addr& bias) {
  if (Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias)) return unit;
  // No .debug_aranges (clang): ask every unit.
  for (Dwarf_Die* unit = dwfl_module_nextcu(module, nullptr, &bias); unit; unit = dwfl_module_nextcu(module, unit, &bias)) {
    if (dwarf_haspc(unit, address - bias) > 0) return unit;
  }
  return nullptr;
}

std::string function_of(Dwarf_Die* scope) {
  Dwarf_Attribute attribute;
  for (unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    const char* linkage = dwarf_formstring(dwarf_attr_integrate(scope, name, &attribute));
    if (linkage != nullptr) return readable_function(linkage);
  }
  return text(dwarf_diename(scope));
}

// The place an inlined function was called from.
Location call_site(Dwarf_Die* unit, Dwarf_Die* inlined) {
  Location at;
  Dwarf_Attribute attribute;
  Dwarf_Word file = 0, line = 0;
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) == 0) at.line = static_cast<int>(line);
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) == 0 &&
      dwarf_getsrcfiles(unit, &files, &count) == 0 && file < count) {
    at.file = text(dwarf_filesrc(files, file, nullptr, nullptr));
  }
  return at;
}

Location line_of(Dwarf_Die* unit, uint64_t address) {
  Location at;
  Dwarf_Line* line = dwarf_getsrc_die(unit, address);
  if (line == nullptr) return at;
  at.file = text(dwarf_linesrc(line, nullptr, nullptr));
  dwarf_lineno(line, &at.line);
  return at;
}

// The functions of the units that were asked for, by address: going through a unit for each address takes a minute where there are
// thousands of functions.
class FunctionIndex {
 public:
  // Null: none covers it.
  Dwarf_Die* at(Dwarf_Die* unit, Dwarf_Addr address) {
    const auto [known, is_new] = units_.try_emplace(dwarf_dieoffset(unit));
    Ranges& ranges = known->second;
    if (is_new) dwarf_getfuncs(unit, &add, &ranges, 0);
    auto above = ranges.upper_bound(address);
    if (above == ranges.begin()) return nullptr;
    Range& range = std::prev(above)->second;
    return address < range.end ? &range.function : nullptr;
  }

 private:
  struct Range {
    Dwarf_Addr end;
    Dwarf_Die function;
  };
  using Ranges = std::map<Dwarf_Addr, Range>;  // by begin

  static int add(Dwarf_Die* function, void* to) {
    Dwarf_Addr base = 0, begin = 0, end = 0;
    for (ptrdiff_t next = 0; (next = dwarf_ranges(function, next, &base, &begin, &end)) > 0;) {
      static_cast<Ranges*>(to)->try_emplace(begin, Range{end, *function});
    }
    return DWARF_CB_OK;
  }

  std::map<Dwarf_Off, Ranges> units_;
};

// The function and what is inlined there, innermost first.
std::vector<Dwarf_Die> scopes_within(Dwarf_Die function, Dwarf_Addr address) {
  constexpr size_t kDeepest = 256;
  std::vector<Dwarf_Die> scopes{function};
  Dwarf_Die child;
  for (bool more = dwarf_child(&function, &child) == 0; more && scopes.size() < kDeepest;) {
    const bool has_code = dwarf_tag(&child) == DW_TAG_inlined_subroutine || dwarf_tag(&child) == DW_TAG_lexical_block;
    if (has_code && dwarf_haspc(&child, address) > 0) {
      scopes.push_back(child);
      Dwarf_Die parent = child;
      more = dwarf_child(&parent, &child) == 0;
    } else {
      Dwarf_Die sibling;
      more = dwarf_siblingof(&child, &sibling) == 0;
      child = sibling;
    }
  }
  std::ranges::reverse(scopes);
  return scopes;
}

std::vector<Location> dwarf_locations(Dwfl_Module* module, FunctionIndex& functions, uint64_t address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = compilation_unit(module, address, bias);
  if (unit == nullptr) return {};
  std::vector<Location> locations;
  Location at = line_of(unit, address - bias);
  Dwarf_Die* function = functions.at(unit, address - bias);
  for (Dwarf_Die& scope : function != nullptr ? scopes_within(*function, address - bias) : std::vector<Dwarf_Die>()) {
    int tag = dwarf_tag(&scope);
    if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine) continue;
    at.function = function_of(&scope);
    locations.push_back(at);
    if (tag == DW_TAG_subprogram) break;
    at = call_site(unit, &scope);
  }
  if (locations.empty() && at.line != 0) locations.push_back(at);
  return locations;
}

// --- the file --------------------------------------------------------------------------------------------------------------

std::vector<std::string> candidates(const std::string& path, const std::string& debug_path) {
  if (debug_path.empty()) return {path};
  return {debug_path + "/" + path, debug_path + "/" + std::string(base_name(path)), path};
}

// A capture may name anything; a FIFO would make us wait for ever.
bool is_readable_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), R_OK) == 0;
}

// The first file of the right build; a wrong one is remembered as the reason if none is right.
std::unique_ptr<ObjectFile> open_object(const std::string& path, const std::string& build_id, const std::string& debug_path,
                                        std::string& problem) {
  problem = "not found on this machine";
  for (const std::string& candidate : candidates(path, debug_path)) {
    if (!is_readable_file(candidate)) continue;
    auto object = std::make_unique<ObjectFile>(candidate, debug_path);
    if (object->module() == nullptr) {
      problem = "not a readable object file";
    } else if (!build_id.empty() && build_id_of(object->module()) != build_id) {
      problem = "another build than the one that was traced";
    } else {
      problem.clear();
      return object;
    }
  }
  return nullptr;
}

}  // namespace

ModuleSymbols module_symbols(const std::string& path, const std::string& build_id, std::span<const uint64_t> addresses,
                             const std::string& debug_path) {
  ModuleSymbols symbols;
  symbols.locations.resize(addresses.size());
  auto object = open_object(path, build_id, debug_path, symbols.problem);
  if (!object) return symbols;

  SymbolSearch search(addresses);
  search.go_through(object->module());
  Dwarf_Addr bias = 0;
  FunctionIndex functions;
  bool has_dwarf = dwfl_module_getdwarf(object->module(), &bias) != nullptr;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (has_dwarf) symbols.locations[i] = dwarf_locations(object->module(), functions, addresses[i]);
    if (!symbols.locations[i].empty()) {
      if (symbols.locations[i].back().function.empty() && search.name(i)) {
        symbols.locations[i].back().function = readable_function(search.name(i));
      }
    } else if (search.name(i) != nullptr) {
      symbols.locations[i] = {{readable_function(search.name(i)), "", 0}};
    }
  }
  return symbols;
}

}  // namespace vramtrack
