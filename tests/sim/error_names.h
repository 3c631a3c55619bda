// Which CUresult carries this name?
#pragma once

#include <optional>
#include <string_view>

#include "cuda_driver_api.h"

namespace sim {

std::optional<CUresult> error_by_name(std::string_view name);

}  // namespace sim
