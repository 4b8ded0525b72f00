// Problems by a line of text, for `smelt tune`: no model is needed to measure what runs them. What products and convolutions
// have in common, and either of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "expr/program.h"
#include "ops/core/tactic.h"

namespace smelt::tune {

/// A text that is read field by field; what does not read throws Error (usage) that says what was expected and what was found.
class TextFields {
 public:
  /// `kind`: the first field, "gemm"; `names`: of all of them, for the error; `example`: "gemm:f16:48x4096x4096:rcr:bias+relu".
  TextFields(std::string_view text, std::string_view kind, size_t least, std::string_view names, std::string_view example);

  size_t count() const { return fields_.size(); }
  std::string_view operator[](size_t i) const { return fields_[i]; }
  [[noreturn]] void refuse(const std::string& why) const;
  /// f32, f16, bf16, i8 or u8.
  DType type(size_t i) const;
  /// "48x4096": numbers from 1 on between x.
  std::vector<int64_t> extents(std::string_view field, std::string_view names) const;
  /// Parts joined by "+" (problem_text.cpp, known_parts); empty for "none" and where the field is left out.
  std::vector<std::string> epilogue(size_t i) const;

 private:
  std::string_view text_, example_;
  std::vector<std::string_view> fields_;
};

std::vector<std::string_view> parts_of(std::string_view text, char between);

bool is_operand(std::string_view part);  // bias, residual, gate
/// The function of one argument that an epilogue calls by this name. Throws Error (usage), which lists those that there are.
expr::Fn epilogue_function(std::string_view name);
/// in0:f32 under the parts, in1… the operands among them, of type `operand`; the result is f32.
expr::Program epilogue_of(const std::vector<std::string>& parts, DType operand);

ops::BoundTensor tensor(DType type, Shape shape, ops::Layout layout = ops::Layout::plain);
ops::BoundTensor constant(Tensor value);
Tensor random_constant(DType type, const Shape& shape, uint32_t seed);

/// A step that kernels are offered for.
struct ProblemNode {
  std::shared_ptr<const Node> node;
  ops::BoundNode bound;
};
/// The node with its inputs and outputs numbered.
ProblemNode numbered(std::shared_ptr<Node> node, ops::BoundNode bound);

/// gemm:… (tune/product_text.h) or conv:… (tune/conv_text.h).
struct ProblemText {
  std::string name;  // the text with what was left out
  ProblemNode node;  // its weights are random numbers
};
/// `rows`: instead of those of a product, images of a convolution; 0: as the text has it. Throws Error (usage) that says what was
/// expected, where, and what was found.
ProblemText parse_problem(std::string_view text, int64_t rows = 0);
/// Whether a text is meant as one.
bool is_problem(std::string_view text);

}  // namespace smelt::tune
