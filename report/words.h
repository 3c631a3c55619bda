// How everything we print says sizes and counts, and how names are looked at.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vramtrack {

std::string size_text(double bytes);                            // "17.2 MiB", "312 B"
std::string count_text(uint64_t count, std::string_view noun);  // "1 block", "3 blocks"
std::string plural_of(std::string_view noun);                   // "blocks", "libraries"

std::string_view base_name(std::string_view path);  // what follows the last '/'
bool contains(std::string_view text, std::string_view part);
bool contains_any(std::string_view text, std::span<const std::string_view> parts);

}  // namespace vramtrack
