#include "support/equivalence.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "ops/core/operator.h"

namespace smelt::fuse {
namespace {

Tensor random_tensor(DType type, const Shape& shape, std::mt19937& random) {
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  std::uniform_real_distribution<float> some(-2, 2);
  for (float& v : values) v = type == DType::i64 ? std::floor(some(random) + 2) : some(random);
  return Tensor::of(shape, values).cast(type);
}

std::vector<Tensor> random_inputs(const Graph& g, const Bindings& symbols) {
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (ValueId v : g.inputs()) {
    Shape shape;
    for (const Dim& d : *g.value(v).shape) shape.push_back(d.known() ? d.value : symbols.at(d.symbol));
    inputs.push_back(random_tensor(g.value(v).type, shape, random));
  }
  return inputs;
}

}  // namespace

void expect_close(const Tensor& after, const Tensor& before, const std::string& what) {
  ASSERT_EQ(after.type(), before.type()) << what;
  ASSERT_EQ(after.shape(), before.shape()) << what;
  const std::vector<double> a = after.to_doubles(), b = before.to_doubles();
  double largest = 0, error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << what << " at " << i;
    if (std::isnan(b[i])) continue;
    largest = std::max(largest, std::abs(b[i]));
    error = std::max(error, std::abs(a[i] - b[i]));
  }
  const DType t = after.type();
  const double ulp = t == DType::f64    ? 0x1p-52
                     : t == DType::f16  ? 0x1p-10
                     : t == DType::bf16 ? 0x1p-7
                     : is_float(t)      ? 0x1p-23
                                        : 0;
  EXPECT_LE(error, 16 * ulp * largest) << what << ": largest value " << largest;
  if (is_float(t) && !a.empty()) {
    EXPECT_GT(largest, 0) << what << " is all zeros, which proves nothing";
  }
}

void expect_same_outputs(const Graph& before, const Graph& after, const Bindings& symbols) {
  const std::vector<Tensor> inputs = random_inputs(before, symbols);
  const std::vector<Tensor> expected = ops::evaluate(before, inputs), found = ops::evaluate(after, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i], before.value(before.outputs()[i]).name);
}

Ledger rewrite_and_compare(Graph& g, const std::vector<std::string>& names, const Bindings& symbols) {
  std::vector<Rewrite> list;
  for (const Rewrite& r : pipeline())
    if (std::find(names.begin(), names.end(), r.name) != names.end()) list.push_back(r);
  EXPECT_EQ(list.size(), names.size()) << "a name is not in the pipeline";
  const Graph before = clone(g);
  Ledger ledger = run(g, list);
  expect_same_outputs(before, g, symbols);
  return ledger;
}

size_t matches(const Ledger& ledger, std::string_view rewrite) {
  return static_cast<size_t>(
      std::count_if(ledger.begin(), ledger.end(), [&](const Entry& e) { return e.matched && e.rewrite == rewrite; }));
}

std::string rejection(const Ledger& ledger, std::string_view rewrite) {
  std::string reason = "not looked at";
  for (const Entry& e : ledger) {
    if (e.rewrite != rewrite) continue;
    if (e.matched) return "matched";
    reason = e.reason;
  }
  return reason;
}

const Node& only(const Graph& g, std::string_view op, std::string_view domain) {
  static const Node none;
  const Node* found = nullptr;
  for (size_t i = 0; i < g.node_count(); ++i) {
    const Node& n = g.node(NodeId(i));
    if (!n.alive || !n.is(op, domain)) continue;
    EXPECT_EQ(found, nullptr) << "more than one " << op;
    found = &n;
  }
  EXPECT_NE(found, nullptr) << "no " << op;
  return found ? *found : none;
}

}  // namespace smelt::fuse
