// The ring of remembered stacks, and their verification.
#include "interpose/native_table.h"

#include <sys/mman.h>

namespace vramtrack {
namespace {

// Stacks of the same call site that are tried before unwinding. They differ somewhere above; most are told apart at once.
constexpr uint32_t kMaxTried = 8;

NativeEntry& entry_at(NativeTableMemory& table, uint32_t place) {
  return *reinterpret_cast<NativeEntry*>(table.ring + place);
}

uint16_t bucket_of(CallSite site) {
  const uint64_t key = (site.frame + site.return_address * 0xd1b54a32d192ed03u) * 0x9e3779b97f4a7c15u;
  return static_cast<uint16_t>(key >> 32) % NativeTableMemory::kBuckets;
}

// Other frames' variables lie between the places; a sanitizer guards some of them.
[[gnu::no_sanitize_address]] bool stack_agrees(NativeEntry& entry) {
  const uint64_t* stack = reinterpret_cast<const uint64_t*>(entry.site.frame);
  const uint64_t* values = entry.values();
  const uint16_t* places = entry.places();
  for (uint32_t i = 0, count = entry.check_count; i < count; ++i) {
    if (stack[places[i]] != values[i]) return false;
  }
  return true;
}

void forget_oldest(NativeTableMemory& table) {
  NativeEntry& oldest = entry_at(table, table.tail);
  uint32_t* link = &table.buckets[oldest.bucket];
  while (*link != table.tail) link = &entry_at(table, *link).next;
  *link = 0;
  table.tail += oldest.size;
  if (!table.wrapped || table.tail != table.wrap) return;
  table.tail = NativeTableMemory::kFirst;
  table.wrapped = false;
}

// Makes [head, head + size) free, moving the head to the beginning where the end is too near.
void make_room(NativeTableMemory& table, uint32_t size) {
  if (size > NativeTableMemory::kRingSize - table.head) {
    while (table.wrapped) forget_oldest(table);
    if (table.tail == table.head) {
      table.tail = NativeTableMemory::kFirst;
    } else {
      table.wrap = table.head;
      table.wrapped = true;
    }
    table.head = NativeTableMemory::kFirst;
  }
  while (table.wrapped && table.tail - table.head < size) forget_oldest(table);
}

}  // namespace

NativeTableMemory* map_native_table() {
  void* memory = mmap(nullptr, sizeof(NativeTableMemory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  NativeTableMemory* table = static_cast<NativeTableMemory*>(memory);
  table->head = table->tail = NativeTableMemory::kFirst;
  table->stack = find_thread_stack();
  return table;
}

void unmap_native_table(NativeTableMemory* table) {
  if (table != nullptr) munmap(table, sizeof *table);
}

void forget_native_entries(NativeTableMemory& table) {
  for (uint32_t& bucket : table.buckets) bucket = 0;
  table.head = table.tail = NativeTableMemory::kFirst;
  table.wrapped = false;
}

NativeEntry* find_native_entry(NativeTableMemory& table, CallSite site) {
  uint32_t tries_left = kMaxTried;
  for (uint32_t place = table.buckets[bucket_of(site)]; place != 0 && tries_left != 0;) {
    NativeEntry& entry = entry_at(table, place);
    if (entry.site.frame == site.frame && entry.site.return_address == site.return_address) {
      if (stack_agrees(entry)) return &entry;
      --tries_left;
    }
    place = entry.next;
  }
  return nullptr;
}

NativeEntry* add_native_entry(NativeTableMemory& table, CallSite site, uint32_t check_count, uint32_t frame_count) {
  const size_t bytes = sizeof(NativeEntry) + check_count * (sizeof(uint64_t) + sizeof(uint16_t)) +
                       frame_count * sizeof(uint32_t);
  const uint32_t size = static_cast<uint32_t>((bytes + 7) & ~size_t{7});
  make_room(table, size);
  const uint32_t place = table.head;
  table.head += size;

  NativeEntry& entry = entry_at(table, place);
  entry = {};
  entry.site = site;
  entry.size = size;
  entry.bucket = bucket_of(site);
  entry.check_count = static_cast<uint16_t>(check_count);
  entry.frame_count = static_cast<uint16_t>(frame_count);
  entry.next = table.buckets[entry.bucket];
  table.buckets[entry.bucket] = place;
  return &entry;
}

}  // namespace vramtrack
