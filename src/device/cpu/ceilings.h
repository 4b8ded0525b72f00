// What this processor can do at best, measured.
#pragma once

#include <functional>
#include <string>

#include "device/ceilings.h"

namespace smelt::device::cpu {

/// Memory by an array four times the last-level cache, at least 256 MiB. Takes about `seconds` in all, and up to twice that
/// where other work has the cores, in search of three undisturbed repetitions of each measurement. `progress` is told what is being
/// measured. Best of the repetitions: a ceiling is what the machine reaches when nothing else runs.
Ceilings measure_ceilings(int threads, double seconds = 3, const std::function<void(const std::string&)>& progress = {});

/// The higher of each ceiling, for two measurements of one machine; under load where both were.
Ceilings best_of(Ceilings a, const Ceilings& b);

}  // namespace smelt::device::cpu
