// What a program over a product's sums ends with, as kernels apply it to registers.
#pragma once

#include <string>

#include "expr/program.h"
#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::ops {

/// What a program does to its argument last: relu, clip with numbers or hard swish, then a scale and a shift by numbers.
struct ProgramEnd {
  igemm::Ending end;
  std::string text;    // "relu", "clip(0,6)+scale"; empty: nothing
  expr::Ref argument;  // of the first of them; the program's output where there is none
};
ProgramEnd program_end(const expr::Program& p);

}  // namespace smelt::ops
