// What a graph's metadata says of outputs that its model declares as sequences (smelt/sequences.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "smelt/sequences.h"

namespace smelt {

inline constexpr const char* sequences_key = "smelt.sequences";

/// A line each: "FIRST COUNT TYPE NAME", COUNT "stacked" where one output holds all, TYPE ONNX's number. In a name \ is \\ and a line's
/// end \n.
std::string print(const std::vector<SequenceOutput>& sequences);
/// Nothing where the metadata has no such entry, or one that print() did not write.
std::vector<SequenceOutput> sequences_in(const std::map<std::string, std::string>& metadata);

}  // namespace smelt
