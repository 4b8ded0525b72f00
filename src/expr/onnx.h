// The ONNX printer writes a Program as a list of standard ONNX operators, in types of its own (no graph, no protobuf).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "expr/program.h"

namespace smelt::expr {

/// One operator with one output. Values have numbers: the program's inputs come first, then each node's output.
struct OnnxNode {
  std::string op;               // "Add", "Cast", …; "Constant" for a scalar
  std::vector<int32_t> inputs;  // values
  int32_t output = 0;
  DType type = DType::f32;                            // of the output; a Cast converts to it
  double value = 0;                                   // Constant only
  std::vector<std::pair<std::string, int64_t>> ints;  // attributes, without Cast's `to`
  std::vector<std::pair<std::string, std::string>> strings;
};

struct OnnxCode {
  std::vector<OnnxNode> nodes;   // in topological order
  std::vector<int32_t> outputs;  // values; one may be an input or a constant, or appear twice
};

/// Translates each instruction by the last column of functions.def (ONNX opset 18 and later). Leaves dead instructions out and
/// writes each constant once. Operands broadcast by ONNX's own rules, so a value may have fewer axes than the outputs.
OnnxCode to_onnx(const Program& p);

}  // namespace smelt::expr
