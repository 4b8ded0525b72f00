// Operands of every combination of types that ONNX allows, with numbers from the ends of their ranges: what an operator's expression
// computes is what its reference does. An operand that is narrowed to the result's type before it is used shows here.
#include <cstring>
#include <functional>
#include <random>

#include "ops/core/row_program.h"
#include "ops/schema_types.h"

namespace smelt::ops::test {
namespace {

constexpr int64_t count = 300;

/// Numbers around every power of two, small ones, and among floats what is no number.
Tensor edges(DType type, int64_t n, uint32_t seed) {
  std::mt19937_64 random(seed);
  if (type == DType::boolean) {
    std::vector<bool> v(static_cast<size_t>(n));
    for (auto&& b : v) b = random() % 2;
    return bools({n}, v);
  }
  if (is_float(type)) {
    std::vector<double> v(static_cast<size_t>(n));
    constexpr double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 16777217, -2147483649.0, 4294967297.0};
    for (double& x : v) x = random() % 3 ? static_cast<double>(random() % 4001) / 500 - 4 : odd[random() % std::size(odd)];
    return Tensor::of<double>({n}, v).cast(type);
  }
  std::vector<int64_t> v(static_cast<size_t>(n));
  for (int64_t& x : v) {
    const uint64_t power = uint64_t{1} << random() % 64;
    x = random() % 2 ? static_cast<int64_t>(random() % 9) - 4 : static_cast<int64_t>(power + random() % 3 - 1);
    if (random() % 4 == 0) x = static_cast<int64_t>(-static_cast<uint64_t>(x));
  }
  return i64({n}, v).cast(type);
}

/// Where a and b differ, which they may not by more than `tolerance` where they are floats.
std::string difference(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.type() != b.type() || a.shape() != b.shape()) return "type or shape";
  const auto size = static_cast<size_t>(bytes(a.type(), 1));
  const auto x = a.to_doubles(), y = b.to_doubles();
  for (size_t i = 0; i < x.size(); ++i) {
    const bool same =
        std::memcmp(static_cast<const char*>(a.raw()) + i * size, static_cast<const char*>(b.raw()) + i * size, size) == 0;
    const bool close = is_float(a.type()) && (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) ||
                                              std::abs(x[i] - y[i]) <= tolerance * (1 + std::abs(y[i])));
    if (!same && !close) return fmt::format("{} for {} at {}", x[i], y[i], i);
  }
  return "";
}

/// Calls f with each combination of the types that ONNX allows for the first inputs of the row.
void for_each_types(const OpRow& row, const std::function<void(const std::vector<DType>&)>& f) {
  const onnx::OpSchema& schema = *schema_of(row);
  std::map<std::string, DType> chosen;
  std::vector<DType> types;
  const std::function<void(size_t)> choose = [&](size_t i) {
    if (i == least_inputs(row)) return f(types);
    const std::string formal = schema.inputs()[std::min(i, schema.inputs().size() - 1)].GetTypeStr();
    const bool is_new = !chosen.contains(formal);
    for (DType t : is_new ? allowed_types(schema, formal) : std::vector{chosen[formal]}) {
      chosen[formal] = t;
      types.push_back(t);
      choose(i + 1);
      types.pop_back();
    }
    if (is_new) chosen.erase(formal);
  };
  choose(0);
}

std::string names(const std::vector<DType>& types) {
  std::string text;
  for (DType t : types) text += (text.empty() ? "" : ", ") + std::string(name(t));
  return text;
}

TEST(MixedTypes, expressions_compute_what_the_references_do_over_whole_ranges) {
  std::map<std::string, int> compared;
  for (const OpRow* row : rows()) {
    if (!row->facts.expression.exists() || !is_pointwise_row(*row) || !schema_of(*row)) continue;
    for_each_types(*row, [&](const std::vector<DType>& types) {
      std::vector<Tensor> in;
      for (size_t i = 0; i < types.size(); ++i) {
        if (types[i] == DType::string) return;
        in.push_back(edges(types[i], count, static_cast<uint32_t>(17 * in.size() + 1)));
      }
      const Node n = node_of(*row, in.size(), types[0]);
      const auto y = reference(n, in);
      if (!y) return;
      for (bool in_region : {false, true}) {
        const auto p = program(n, in, *y, in_region);
        if (!p) continue;
        ++compared[std::string(row->def.op)];
        const std::vector<Tensor> read(in.begin(), in.begin() + p->input_count());
        const DType result = y->type();
        const double tolerance = result == DType::f64 ? 1e-9 : result == DType::f32 ? 1e-5 : 1e-2;
        const std::string wrong = difference(evaluate_program(*p, read, Shape{count})[0], *y, tolerance);
        EXPECT_EQ(wrong, "") << row->def.op << " of " << names(types) << ": " << p->print();
      }
    });
  }
  EXPECT_GE(compared["Pow"], 2 * 6 * 12);
  EXPECT_GE(compared["Where"], 2 * 11);
  EXPECT_GT(compared.size(), 60u);
}

TEST(MixedTypes, bounds_have_the_type_of_what_they_bound) {
  const onnx::OpSchema& schema = *onnx::OpSchemaRegistry::Schema("Clip");
  int compared = 0;
  for (const DType t : allowed_types(schema, "T")) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const std::vector<Tensor> in = {edges(t, count, seed), edges(t, 1, seed + 100), edges(t, 1, seed + 200)};
      const Node n = make_node("Clip", 3);
      const auto y = reference(n, in);
      ASSERT_TRUE(y) << name(t);
      const double low = in[1].to_doubles()[0], high = in[2].to_doubles()[0];
      for (const bool in_region : {false, true}) {
        if (std::isnan(low) || std::isnan(high) || (in_region && low > high)) continue;  // what holds then is left open
        const auto p = program(n, in, *y, in_region);
        ++compared;
        EXPECT_EQ(difference(evaluate_program(*p, in, Shape{count})[0], *y, 0), "") << name(t) << ": " << low << " " << high;
      }
    }
    EXPECT_FALSE(reference(make_node("Clip", 2), {edges(t, 4, 1), edges(t == DType::i64 ? DType::i32 : DType::i64, 1, 1)}));
  }
  EXPECT_GT(compared, 12 * 20);
}

/// Of one scale and one zero point.
TEST(MixedTypes, quantised_integers_of_32_bits_do_not_wrap) {
  const Tensor x = i32({5}, {INT32_MAX, INT32_MIN, 7, -9, 100}), scale = f32({1}, {0.5f}), far = i32({1}, {-3});
  const Tensor y = *reference(make_node("DequantizeLinear", 3), {x, scale, far});
  EXPECT_EQ(y.to_doubles()[2], 5);
  for (const bool in_region : {false, true}) {
    const auto p = program(make_node("DequantizeLinear", 3), {x, scale, far}, y, in_region);
    EXPECT_EQ(difference(evaluate_program(*p, std::vector{x, scale, far}, Shape{5})[0], y, 1e-6), "") << p->print();
  }
  for (const DType t : {DType::i32, DType::f16, DType::f32}) {
    const Tensor from = x.cast(t), zero = u8({1}, {128}), q = *reference(make_node("QuantizeLinear", 3), {from, scale, zero});
    EXPECT_EQ(q.to_ints(), (Ints{255, 0, 142, 110, 255}));
    const auto p = program(make_node("QuantizeLinear", 3), {from, scale, zero}, q, false);
    EXPECT_EQ(evaluate_program(*p, std::vector{from, scale, zero}, Shape{5})[0].to_ints(), q.to_ints()) << p->print();
  }
}

}  // namespace
}  // namespace smelt::ops::test
