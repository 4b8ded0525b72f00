// The ONNX printer: a Program as a list of standard ONNX operators, in this module's own terms (no graph, no protobuf).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "expr/program.h"

namespace smelt::expr {

/// One operator with one output. Values are numbered: the program's inputs first, then each node's output.
struct OnnxNode {
  std::string op;               // "Add", "Cast", …; "Constant" for a scalar
  std::vector<int32_t> inputs;  // values
  int32_t output = 0;
  DType type = DType::f32;                            // of the output; what a Cast converts to
  double value = 0;                                   // Constant only
  std::vector<std::pair<std::string, int64_t>> ints;  // attributes, without Cast's `to`
  std::vector<std::pair<std::string, std::string>> strings;
};

struct OnnxCode {
  std::vector<OnnxNode> nodes;   // arguments before their uses
  std::vector<int32_t> outputs;  // values; may be an input or a constant, or one twice
};

/// What each instruction is in ONNX (functions.def's last column, opset 18 and later). Dead instructions are left out, and
/// constants appear once. Broadcasting between the operands is ONNX's own; a value may so have fewer axes than the outputs.
OnnxCode to_onnx(const Program& p);

}  // namespace smelt::expr
