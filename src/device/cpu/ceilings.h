// What this processor can do at best, measured.
#pragma once

#include <functional>
#include <string>

#include "device/ceilings.h"

namespace smelt::device::cpu {

/// Memory by an array four times the last-level cache, at least 256 MiB. Takes about `seconds` in all. `progress` is told what is
/// being measured. Best of the repetitions: a ceiling is what the machine reaches when nothing else runs.
Ceilings measure_ceilings(int threads, double seconds = 3, const std::function<void(const std::string&)>& progress = {});

}  // namespace smelt::device::cpu
