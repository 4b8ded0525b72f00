// The rows' facts against ONNX's schemas, the shape rules and the references.
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "ops/core/row_program.h"
#include "ops/pointwise/onnx_program.h"

namespace smelt::ops::test {
namespace {

/// The type of input i of a node whose operands are of `type`.
DType input_type(const OpRow& row, size_t i, DType type) { return row.def.op == "Where" && i == 0 ? DType::boolean : type; }

/// Small numbers of both signs; among floats NaN, infinities and zeros of both signs.
Tensor odd_values(DType type, int64_t count, uint32_t seed) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double odd[] = {std::numeric_limits<double>::quiet_NaN(), inf, -inf, 0.0, -0.0, 1, -1, 0.5, -2.5, 88, -88};
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> next(is_signed(type) || !is_integer(type) ? -4 : 0, 5);
  Tensor t = Tensor::empty(DType::f64, {count});
  for (double& v : t.span<double>()) {
    v = next(engine);
    if (is_float(type) && engine() % 3 == 0) v = odd[engine() % std::size(odd)];
    if (type == DType::boolean) v = v > 0 ? 1 : 0;
  }
  return t.cast(type);
}

std::vector<Tensor> inputs_of(const OpRow& row, DType type, const Shape& shape) {
  std::vector<Tensor> in;
  for (size_t i = 0; i < least_inputs(row); ++i) {
    const Tensor values = odd_values(input_type(row, i, type), elements(shape), static_cast<uint32_t>(i + 1));
    in.push_back(values.reshaped(shape));
  }
  return in;
}

Tensor permuted(const Tensor& t, const std::vector<int64_t>& from) {
  Tensor r = Tensor::empty(t.type(), t.shape());
  const auto size = static_cast<size_t>(bytes(t.type(), 1));
  for (size_t i = 0; i < from.size(); ++i)
    std::memcpy(static_cast<char*>(r.raw()) + i * size, static_cast<const char*>(t.raw()) + static_cast<size_t>(from[i]) * size,
                size);
  return r;
}

const DType types[] = {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8, DType::u32, DType::boolean};

TEST(Facts, of_expressions_agree_with_the_schemas) {
  int counted = 0;
  for (const OpRow* row : rows()) {
    const auto* schema = schema_of(*row);
    const Expression& e = row->facts.expression;
    if (!schema) continue;
    if (row->facts.operands != 255) {
      EXPECT_LT(row->facts.operands, schema->max_input()) << row->def.op;
    }
    if (!e.exists()) continue;
    ++counted;
    EXPECT_EQ(e.operands(), std::min<size_t>(static_cast<size_t>(schema->min_input()), row->facts.operands)) << row->def.op;
    if (!e.write) {
      EXPECT_EQ(schema->min_input(), schema->max_input()) << row->def.op;
    }
    if (row->def.op != "Dropout") {
      EXPECT_EQ(schema->max_output(), 1) << row->def.op;
    }
    for (const auto& p : e.parameters) {
      if (p.name.empty()) continue;
      const auto at = schema->attributes().find(std::string(p.name));
      ASSERT_NE(at, schema->attributes().end()) << row->def.op << " " << p.name;
      EXPECT_EQ(at->second.type, onnx::AttributeProto::FLOAT) << row->def.op << " " << p.name;
      EXPECT_EQ(at->second.default_value.f(), p.otherwise) << row->def.op << " " << p.name;
    }
  }
  EXPECT_GT(counted, 70);
}

TEST(Facts, of_pointwise_operators_hold_for_permuted_elements) {
  std::vector<int64_t> from(24);
  std::iota(from.begin(), from.end(), 0);
  std::shuffle(from.begin(), from.end(), std::mt19937(7));
  for (const OpRow* row : rows()) {
    if (!is_pointwise_row(*row)) continue;
    int defined = 0;
    for (DType type : types) {
      const std::vector<Tensor> in = inputs_of(*row, type, {24});
      const Node n = node_of(*row, in.size(), type);
      const auto y = reference(n, in);
      if (!y) continue;
      ++defined;
      EXPECT_EQ(y->shape(), Shape{24}) << row->def.op;
      std::vector<Tensor> other;
      for (size_t i = 0; i < in.size(); ++i) other.push_back(i < row->facts.operands ? permuted(in[i], from) : in[i]);
      const Tensor wanted = permuted(*y, from), got = evaluate(n, other)[0];
      EXPECT_EQ(std::memcmp(wanted.raw(), got.raw(), static_cast<size_t>(got.nbytes())), 0)
          << row->def.op << " of " << name(type);
    }
    EXPECT_GT(defined, 0) << row->def.op;
  }
}

TEST(Facts, of_broadcasting_say_what_operands_may_enlarge) {
  for (const OpRow* row : rows()) {
    if (!is_pointwise_row(*row) || std::min<size_t>(least_inputs(*row), row->facts.operands) < 2) continue;
    for (DType type : types) {
      std::vector<Tensor> in = inputs_of(*row, type, {6});
      const Node n = node_of(*row, in.size(), type);
      if (!reference(n, in)) continue;
      in.back() = odd_values(in.back().type(), 4, 9).reshaped({4, 1});
      const auto y = reference(n, in);
      EXPECT_EQ(y.has_value(), row->facts.shape == OutShape::broadcast) << row->def.op << " of " << name(type);
      if (y) {
        EXPECT_EQ(y->shape(), (Shape{4, 6})) << row->def.op << " of " << name(type);
      }
    }
  }
}

/// Output 0 by the shape rule, trying other inputs of the usual shapes; nothing where none of them fits.
std::optional<Shape> inferred_shape(const OpRow& row, const Shape& x) {
  const auto* schema = schema_of(row);
  const size_t count = schema ? static_cast<size_t>(schema->min_input()) : 2;
  const Tensor axis = i64({}, {0});
  for (const Shape& other : {Shape{}, Shape{x[1]}, Shape{x.back()}, x, Shape{1}}) {
    for (const auto& [type, second] : {std::pair(DType::f32, DType::f32), {DType::f32, DType::i64}, {DType::u8, DType::f32}}) {
      std::vector<TensorDesc> in = {{type, x, true, nullptr}}, out(1);
      for (size_t i = 1; i < count; ++i) in.push_back({second, other, true, second == DType::i64 ? &axis : nullptr});
      Node n = node_of(row, count, DType::f32);
      if (row.def.op == "GroupNormalization") n.attrs["num_groups"] = int64_t{1};
      if (row.def.op == "LRN") n.attrs["size"] = int64_t{1};
      try {
        infer(n, in, out);
        if (out[0].shape_known) return out[0].shape;
      } catch (const Error&) {
      }
    }
  }
  return std::nullopt;
}

TEST(Facts, of_kept_shapes_are_those_of_the_shape_rules) {
  int shown = 0;
  for (const OpRow* row : rows()) {
    const OutShape shape = row->facts.shape;
    if (shape != OutShape::input && shape != OutShape::input_all) continue;
    const auto y = inferred_shape(*row, {2, 3, 4, 5});
    if (!y) continue;
    EXPECT_EQ(*y, (Shape{2, 3, 4, 5})) << row->def.op;
    ++shown;
  }
  EXPECT_GT(shown, 70);
}

TEST(Facts, of_expressions_compute_what_the_references_do) {
  for (const OpRow* row : rows()) {
    if (!is_pointwise_row(*row) || !row->facts.expression.exists()) continue;
    int expressed = 0;
    for (DType type : types) {
      const std::vector<Tensor> in = inputs_of(*row, type, {200});
      const Node n = node_of(*row, in.size(), type);
      const auto y = reference(n, in);
      if (!y) continue;
      for (bool in_region : {false, true}) {
        const auto p = program(n, in, *y, in_region);
        if (!p) continue;
        ++expressed;
        const Shape shape{200};
        const std::vector<Tensor> read(in.begin(), in.begin() + p->input_count());
        const Tensor got = evaluate_program(*p, read, shape)[0];
        const double tolerance = type == DType::f16 ? 2e-3 : type == DType::f64 ? 1e-9 : 1e-5;
        expect_alike(got, *y, tolerance, std::string(row->def.op) + " of " + std::string(name(type)) + ": " + p->print());
      }
    }
    EXPECT_GE(expressed, 2) << row->def.op;
  }
}

TEST(Facts, of_powers_hold_for_the_constants_that_have_a_form_of_their_own) {
  const Tensor x = odd_values(DType::f32, 200, 3);
  for (double exponent : {-1.0, 0.0, 0.5, 1.0, 2.0, 3.0}) {
    const std::vector<Tensor> in = {x, Tensor::scalar<float>(static_cast<float>(exponent))};
    const Node n = make_node("Pow", 2);
    expr::Program p;
    const expr::Ref base = p.input(DType::f32);
    const Operand operands[] = {{true, base}, {true, p.constant(DType::f32, exponent), exponent}};
    p.output(*express({p, n, operands, DType::f32, DType::f32, true}));
    expect_alike(evaluate_program(p, std::vector{x}, Shape{200})[0], evaluate(n, in)[0], 1e-5, std::to_string(exponent));
  }
}

TEST(Facts, of_layouts_leave_out_what_no_kernel_takes) {
  EXPECT_TRUE(is_elementwise(make_node("Sum", 2)));
  EXPECT_TRUE(is_elementwise(make_node("com.microsoft:Gelu", 1)));
  EXPECT_TRUE(is_elementwise(make_node("ai.smelt:Pointwise", 1)));
  for (const char* op : {"Dropout", "BitCast", "Identity", "QuantizeLinear", "Softmax", "NoSuchOperator"})
    EXPECT_FALSE(is_elementwise(make_node(op, 1))) << op;
}

TEST(Facts, of_sizes_that_depend_on_data_agree_with_the_shape_rules) {
  for (const OpRow* row : rows())
    if (row->facts.at_most) {
      EXPECT_TRUE(row->facts.data_dependent) << row->def.op;
    }
}

TEST(Facts, of_functions_name_operators_that_have_one) {
  for (const OpRow* row : rows()) {
    // A fused operator brings its own, and import has rules for these (tests/fuse/contributed_test.cpp, without_kernel_test.cpp).
    constexpr std::string_view by_rules[] = {"GlobalLpPool", "LpPool", "MatMulInteger", "MaxUnpool", "Multinomial"};
    if (!row->facts.expands_on_gpu || row->def.body || row->def.domain == microsoft_domain) continue;
    if (std::ranges::find(by_rules, row->def.op) != std::end(by_rules)) continue;
    const auto* schema = schema_of(*row);
    ASSERT_NE(schema, nullptr) << row->def.op;
    EXPECT_TRUE(schema->HasFunction() || schema->HasContextDependentFunction()) << row->def.op;
  }
}

}  // namespace
}  // namespace smelt::ops::test
