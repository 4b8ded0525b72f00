// The stages of `smelt optimize` over any bytes, up to the plan's file; what the fuzzer runs, and the replay of its corpus.
#pragma once

#include <cstdint>
#include <span>

namespace smelt::fuzz {

/// Import gives a graph or an Error. A graph that import accepts, the rewrites accept too, and what they leave is valid; the plan
/// that is written from it can be read again, or is refused with an Error. Throws what is no fault of the bytes. True when import
/// accepted them.
bool optimize_any(std::span<const uint8_t> bytes);

}  // namespace smelt::fuzz
