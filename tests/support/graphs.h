// Graphs for the tests of the planner and the executor, and the oracle they are held to: ops::evaluate, operator by operator.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fuse/match/rewrite.h"
#include "ops/core/operator.h"
#include "smelt/session.h"
#include "support/builder.h"

namespace smelt::test {

using fuse::Builder;

/// Nothing is measured and no cache is touched: tests are the same everywhere. No rewrite runs: the steps are the
/// graph's nodes.
inline Options quick() {
  Options o;
  o.tuning_level = 0;
  o.use_cache = false;
  o.threads = 2;
  for (const fuse::Rewrite& r : fuse::pipeline()) o.skip.emplace_back(r.name);
  return o;
}

/// The same with every rewrite.
inline Options rewriting() {
  Options o = quick();
  o.skip.clear();
  return o;
}

/// Plans for a GPU that need not be there.
inline Options for_arch(const std::string& arch) {
  Options o = rewriting();
  o.arch = arch;
  return o;
}

/// The same operator by operator: every tensor of its own, in ONNX's layout.
inline Options unfused() {
  Options o = quick();
  o.optimize = false;
  return o;
}

inline Tensor random_tensor(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (float& v : values) v = uniform(random);
  return Tensor::of(shape, values);
}

inline void expect_same(const Tensor& found, const Tensor& expected, double tolerance = 0) {
  ASSERT_EQ(found.type(), expected.type());
  ASSERT_EQ(found.shape(), expected.shape());
  const auto a = found.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (tolerance == 0)
      ASSERT_EQ(a[i], b[i]) << "element " << i;
    else
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "element " << i;
  }
}

/// How far kernels may be from the references, relative to 1 + |expected|: 4 ulp of f32 (random graphs of 25 operators end less
/// than 1 ulp away, measured).
inline constexpr double rounding = 5e-7;

/// Attention of 4 heads of 16 over 24 tokens, two images: q, k and v cut from one product, the heads merged for another.
inline Graph attention_block(DType type) {
  Builder b;
  const int64_t n = 2, tokens = 24, heads = 4, depth = 16, width = heads * depth;
  const auto transpose = [&](const std::string& name, ValueId x, const Shape& shape) {
    return b.node(name, "Transpose", {x}, to_sym(shape), type, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  };
  const ValueId x = b.input("x", to_sym({n, tokens, width}), type);
  const ValueId w = b.weights("w", {width, 3 * width}, type);
  const ValueId all = b.node("qkv", "MatMul", {x, w}, to_sym({n, tokens, 3 * width}), type);
  std::vector<ValueId> parts;
  for (const char* name : {"q", "k", "v"}) parts.push_back(b.g.add_value(name, type, to_sym({n, tokens, width})));
  b.g.add_node({.op = "Split",
                .name = "cut",
                .inputs = {all},
                .outputs = parts,
                .attrs = {{"axis", int64_t{2}}, {"num_outputs", int64_t{3}}}});
  for (ValueId& p : parts) {
    const std::string name = b.g.value(p).name;
    p = b.node(name + "_heads", "Reshape", {p, b.ints({n, tokens, heads, depth})}, to_sym({n, tokens, heads, depth}), type);
    p = transpose(name + "_turned", p, {n, heads, tokens, depth});
  }
  const ValueId y =
      b.node("attention", "Attention", parts, to_sym({n, heads, tokens, depth}), type, {{"scale", 0.25f}}, smelt_domain);
  const ValueId back = transpose("back", y, {n, tokens, heads, depth});
  const ValueId merged = b.node("merged", "Reshape", {back, b.ints({n, tokens, width})}, to_sym({n, tokens, width}), type);
  b.output(b.node("out", "MatMul", {merged, b.weights("o", {width, width}, type)}, to_sym({n, tokens, width}), type));
  return std::move(b.g);
}

/// One step of decoding: attention of 2 heads of 8 for a new token over what past_k and past_v hold and its own key and value.
/// Outputs y [images, 1, 16], k and v [images, 2, past + 1, 8].
inline Graph decoding_block(int64_t images, DType type) {
  Builder b;
  const int64_t heads = 2, depth = 8, width = heads * depth;
  const SymShape past{Dim(images), Dim(heads), Dim("past"), Dim(depth)};
  const SymShape present{Dim(images), Dim(heads), Dim("total"), Dim(depth)};
  const ValueId x = b.input("x", to_sym({images, 1, width}), type);
  const auto head = [&](const std::string& name) {
    const ValueId product = b.node(name + "_product", "MatMul", {x, b.weights("w" + name, {width, width}, type, 0.3)},
                                   to_sym({images, 1, width}), type);
    const ValueId cut =
        b.node(name + "_cut", "Reshape", {product, b.ints({images, 1, heads, depth})}, to_sym({images, 1, heads, depth}), type);
    return b.node(name + "_new", "Transpose", {cut}, to_sym({images, heads, 1, depth}), type,
                  {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  };
  const auto grown = [&](const std::string& name) {
    const ValueId before = b.input("past_" + name, past, type);
    return b.node(name, "Concat", {before, head(name)}, present, type, {{"axis", int64_t{2}}});
  };
  const ValueId q = head("q"), k = grown("k"), v = grown("v");
  const ValueId y =
      b.node("attention", "Attention", {q, k, v}, to_sym({images, heads, 1, depth}), type, {{"scale", 0.3f}}, smelt_domain);
  b.output(b.node("y", "Reshape", {y, b.ints({images, 1, width})}, to_sym({images, 1, width}), type));
  b.output(k);
  b.output(v);
  return std::move(b.g);
}

/// The first `length` rows of each head of `cache` [images, heads, capacity, depth].
inline Tensor rows_of(const Tensor& cache, int64_t length) {
  const Shape& s = cache.shape();
  const int64_t size = bytes(cache.type(), 1);
  Tensor t = Tensor::empty(cache.type(), {s[0], s[1], length, s[3]});
  for (int64_t h = 0; h < s[0] * s[1]; ++h)
    std::memcpy(static_cast<char*>(t.raw()) + h * length * s[3] * size,
                static_cast<const char*>(cache.raw()) + h * s[2] * s[3] * size, static_cast<size_t>(length * s[3] * size));
  return t;
}

/// y = Reshape(Softmax(x · w), [batch * seq, 8]), with the reshape's extents computed from Shape(x).
inline Graph symbolic_graph() {
  Builder b;
  const ValueId x = b.input("x", {Dim("batch"), Dim("seq"), Dim(4)});
  const ValueId m = b.node("m", "MatMul", {x, b.weights("w", {4, 8})}, {Dim("batch"), Dim("seq"), Dim(8)});
  const ValueId s = b.node("s", "Softmax", {m}, {Dim("batch"), Dim("seq"), Dim(8)}, DType::f32, {{"axis", int64_t{-1}}});
  const ValueId shape = b.node("shape", "Shape", {x}, to_sym({3}), DType::i64);
  const ValueId batch = b.node("batch", "Gather", {shape, b.g.add_constant("", Tensor::scalar<int64_t>(0))}, {}, DType::i64);
  const ValueId seq = b.node("seq", "Gather", {shape, b.g.add_constant("", Tensor::scalar<int64_t>(1))}, {}, DType::i64);
  const ValueId rows = b.node("rows", "Mul", {batch, seq}, {}, DType::i64);
  const ValueId rows1 = b.node("rows1", "Unsqueeze", {rows, b.ints({0})}, to_sym({1}), DType::i64);
  const ValueId to = b.node("to", "Concat", {rows1, b.ints({8})}, to_sym({2}), DType::i64, {{"axis", int64_t{0}}});
  b.output(b.node("y", "Reshape", {s, to}, {Dim("rows"), Dim(8)}, DType::f32, {{"allowzero", int64_t{1}}}));
  return std::move(b.g);
}

/// The elements of x above 0, doubled, their count, and a product that depends on neither.
inline Graph counting_graph() {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId zero = b.scalar(0);
  const ValueId positive = b.node("positive", "Greater", {x, zero}, {Dim("n")}, DType::boolean);
  const ValueId where = b.node("where", "NonZero", {positive}, {Dim(1), Dim("k")}, DType::i64);
  const ValueId index =
      b.node("index", "Transpose", {where}, {Dim("k"), Dim(1)}, DType::i64, {{"perm", std::vector<int64_t>{1, 0}}});
  const ValueId picked = b.node("picked", "GatherND", {x, index}, {Dim("k")});
  b.output(b.node("doubled", "Add", {picked, picked}, {Dim("k")}));
  b.output(b.node("count", "Shape", {picked}, to_sym({1}), DType::i64));
  b.output(b.node("square", "Mul", {x, x}, {Dim("n")}));
  return std::move(b.g);
}

/// A random graph of pointwise operators, views, concatenations, splits and transposes over [1 or 2, n, 4] tensors. One
/// input; some values have several readers, and some are outputs too.
inline Graph random_graph(unsigned seed, int nodes = 25) {
  std::mt19937 random(seed);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Builder b;
  const int64_t outer = 1 + static_cast<int64_t>(pick(2));
  struct Item {
    ValueId v;
    Shape shape;
  };
  std::vector<Item> pool{{b.input("x", to_sym({outer, 6, 4})), {outer, 6, 4}}};
  pool.push_back({b.constant("c", random_tensor({outer, 6, 4}, seed)), {outer, 6, 4}});
  const auto make = [&](const std::string& op, std::vector<ValueId> in, const Shape& shape,
                        std::map<std::string, Attribute> attrs = {}) {
    pool.push_back(
        {b.node("n" + std::to_string(b.g.node_count()), op, std::move(in), to_sym(shape), DType::f32, std::move(attrs)), shape});
  };
  const char* unary[] = {"Relu", "Tanh", "Neg", "Abs"};
  const char* binary[] = {"Add", "Mul", "Sub", "Max"};
  for (int i = 0; i < nodes; ++i) {
    const Item x = pool[pool.size() - 1 - pick(std::min<size_t>(pool.size(), 6))];
    switch (pick(7)) {
      case 0: make(unary[pick(4)], {x.v}, x.shape); break;
      case 1: {
        const Item y = pool[pick(pool.size())];
        if (y.shape == x.shape) make(binary[pick(4)], {x.v, y.v}, x.shape);
        break;
      }
      case 2: {
        const Shape flat{x.shape[0], x.shape[2], x.shape[1]};
        make("Reshape", {x.v, b.ints(flat)}, flat);
        break;
      }
      case 3: {
        const Item y = pool[pick(pool.size())];
        const int64_t axis = 1 + static_cast<int64_t>(pick(2));
        Shape s = x.shape;
        if (y.shape[0] != s[0] || y.shape[static_cast<size_t>(3 - axis)] != s[static_cast<size_t>(3 - axis)] ||
            s[static_cast<size_t>(axis)] > 64)
          break;
        s[static_cast<size_t>(axis)] += y.shape[static_cast<size_t>(axis)];
        make("Concat", {x.v, y.v}, s, {{"axis", axis}});
        break;
      }
      case 4: {
        if (x.shape[1] < 2) break;
        Shape s = x.shape;
        s[1] -= 1;
        make("Slice", {x.v, b.ints({1}), b.ints({1 << 20}), b.ints({1})}, s);
        break;
      }
      case 5: make("Transpose", {x.v}, {x.shape[0], x.shape[2], x.shape[1]}, {{"perm", std::vector<int64_t>{0, 2, 1}}}); break;
      default: make("Identity", {x.v}, x.shape); break;
    }
    if (pick(8) == 0) b.output(pool.back().v);
  }
  b.output(pool.back().v);
  return std::move(b.g);
}

/// Runs a graph of one input of known shape, compares it with the operator-by-operator references, and returns the steps' operators.
inline std::vector<std::string> run_and_compare(Graph g, const Options& options = quick()) {
  const Tensor x = random_tensor(to_shape(*g.value(g.inputs()[0]).shape), 99);
  const std::vector<Tensor> in = {x};
  const std::vector<Tensor> want = ops::evaluate(g, in);
  const auto plan = Plan::build(std::move(g), options);
  auto execution = plan->execution();
  execution->bind(in);
  execution->run();
  for (size_t i = 0; i < want.size(); ++i) expect_same(execution->outputs()[i], want[i], 1e-4);
  std::vector<std::string> ops;
  for (const StepInfo& s : execution->steps()) ops.push_back(s.op);
  return ops;
}

}  // namespace smelt::test
