// Timings as JSON: in a row of the tuning cache, and in what `smelt cache export` writes. What is read may be anybody's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tune/timing.h"

namespace smelt::tune {

nlohmann::json to_json(const std::vector<Timing>& timings);
/// Throws Error or nlohmann's exception for what is no list of timings, or has none that ran.
std::vector<Timing> timings_from(const nlohmann::json& list);
/// The whole number of this name; Error where there is another thing.
int count_in(const nlohmann::json& entry, const char* key);
/// Names may hold any bytes; JSON has UTF-8 alone.
std::string dump(const nlohmann::json& json, int indent = -1);

}  // namespace smelt::tune
