// An instruction of PTX, and the words that its text is made of.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "inspect/kernel.h"

namespace smelt::inspect {

inline constexpr std::string_view ptx_blanks(" \t\r\n\v\f\0", 7);  // what NVRTC gives ends with a zero

/// Without blanks around it.
std::string_view trimmed(std::string_view text);
std::vector<std::string_view> words_of(std::string_view text, std::string_view between);
/// Behind blanks; 0 where there is none.
int64_t leading_number(std::string_view text);
/// Bytes of "f32", "b128", "f16x2"; 0: no type.
int bytes_of_type(std::string_view type);
/// Adds one instruction without its predicate: "ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%rd6]".
void add_instruction(std::string_view text, CodeBuilder& code);

}  // namespace smelt::inspect
