#include "tune/product_text.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace smelt::tune {
namespace {

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }
DType result_of(DType t) { return is_byte(t) ? DType::f32 : t; }

expr::Program program_of(const ProductText& p) {
  const DType out = result_of(p.type);
  const expr::Program parts = epilogue_of(p.epilogue, out);
  expr::Program program;
  std::vector<expr::Ref> inputs;
  for (int i = 0; i < parts.input_count(); ++i) inputs.push_back(program.input(parts.type(i)));
  program.output(program.cast(program.splice(parts, inputs)[0], out));
  return program;
}

}  // namespace

ProductText parse_product(std::string_view text) {
  const TextFields fields(text, "gemm", 3, "gemm, type, MxNxK, layout, epilogue", "gemm:f16:48x4096x4096:rcr:bias+relu");
  ProductText p;
  p.type = fields.type(1);
  const std::vector<int64_t> sizes = fields.extents(fields[2], "MxNxK");
  p.m = sizes[0], p.n = sizes[1], p.k = sizes[2];
  if (fields.count() > 3) {
    const std::string_view layout = fields[3];
    const bool known = layout.size() == 3 && std::ranges::all_of(layout, [](char c) { return c == 'r' || c == 'c'; });
    if (!known) fields.refuse(fmt::format("expected a layout of three letters r and c, as rcr, found '{}'", layout));
    if (layout[2] != 'r')
      fields.refuse(fmt::format("the result lies by rows: expected '{}r', found '{}'", layout.substr(0, 2), layout));
    p.a_columns = layout[0] == 'c', p.b_columns = layout[1] == 'c';
  }
  p.epilogue = fields.epilogue(4);
  return p;
}

std::string print(const ProductText& p) {
  return fmt::format("gemm:{}:{}x{}x{}:{}{}r:{}", name(p.type), p.m, p.n, p.k, p.a_columns ? 'c' : 'r', p.b_columns ? 'c' : 'r',
                     p.epilogue.empty() ? "none" : fmt::format("{}", fmt::join(p.epilogue, "+")));
}

ProblemNode product_node(const ProductText& p) {
  const DType out = result_of(p.type);
  auto node = std::make_shared<Node>();
  node->domain = smelt_domain;
  node->op = is_byte(p.type) ? "QLinearMatMul" : "MatMul";
  node->name = print(p);
  if (p.a_columns) node->attrs["transA"] = int64_t{1};
  if (p.b_columns) node->attrs["transB"] = int64_t{1};
  node->program = program_of(p);
  ops::BoundNode b;
  b.inputs = {
      tensor(p.type, p.a_columns ? Shape{p.k, p.m} : Shape{p.m, p.k}),
      constant(random_constant(is_byte(p.type) ? DType::i8 : p.type, p.b_columns ? Shape{p.n, p.k} : Shape{p.k, p.n}, 1))};
  if (is_byte(p.type)) {
    const auto scalar = [](auto value) { return constant(Tensor::scalar(value)); };
    b.inputs.push_back(scalar(0.02f));
    b.inputs.push_back(p.type == DType::u8 ? scalar(uint8_t{128}) : scalar(int8_t{0}));
    b.inputs.push_back(scalar(0.02f));
    b.inputs.push_back(scalar(int8_t{0}));
  }
  for (const std::string& part : p.epilogue) {
    if (part == "bias")
      b.inputs.push_back(constant(random_constant(out, {p.n}, 2)));  // a constant in models: kernels pack it with the weights
    else if (is_operand(part))
      b.inputs.push_back(tensor(out, {p.m, p.n}));
  }
  b.outputs = {tensor(out, {p.m, p.n})};
  return numbered(std::move(node), std::move(b));
}

}  // namespace smelt::tune
