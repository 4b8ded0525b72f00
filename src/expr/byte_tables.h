// What programs make of one value of 8 bits alone: a table of 256 entries for each, made by the evaluator that would compute it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "expr/program.h"
#include "expr/simd/isa.h"

namespace smelt::expr {

/// A value of 8 bits that depends on another one alone, through numbers or not: GELU, SiLU or any other chain between DequantizeLinear and
/// QuantizeLinear.
struct BytePart {
  Ref from = -1, to = -1;
  std::vector<Ref> known;  // inputs that it reads beside `from`
  Program program;         // its inputs: `from`, then these
};

/// Those that the outputs need and that take fewer loops as tables. Each goes back as far as one byte leads. `known`: by input, whether it
/// is the same for all elements of a run; none where it is empty.
std::vector<BytePart> byte_parts(const Program& p, const std::vector<bool>& known = {});

struct ByteTable {
  Ref from = -1;                   // the value of 8 bits
  std::array<uint8_t, 256> bytes;  // what becomes of each
};

/// The parts of a program as tables, by their last instruction. None in a program of one byte that gives one byte: tables are made by
/// those.
std::map<Ref, ByteTable> byte_tables(const Program& p, simd::Isa isa);

/// What instruction `to` is for each of the 256 bytes that `from` can be; nothing when `to` depends on anything else, or one of
/// them has not 8 bits.
std::optional<std::array<uint8_t, 256>> table_between(const Program& p, Ref from, Ref to, simd::Isa isa = simd::widest());

/// Whether the loops of a program take less than a table: those over bytes take a tenth of a look-up each, but not where a byte is
/// divided, multiplied by itself or widened.
bool has_fast_loops(const Program& p);

}  // namespace smelt::expr
