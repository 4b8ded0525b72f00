// The list behind find_microsoft_operator().
#pragma once

#include <span>

namespace onnx {
struct InferenceContext;
}

namespace smelt::importer {

struct MicrosoftOperator {
  const char* op;
  /// A letter for the type of each input and, behind the colon, of each output. Those with the same letter are of the same type, one
  /// with a dot is of any. '*' ends a list of inputs of any number and types.
  const char* types;
  int min_inputs;
  void (*infer)(onnx::InferenceContext&);
  const char* domain = "com.microsoft";
};

std::span<const MicrosoftOperator> microsoft_operators();

}  // namespace smelt::importer
