// Plans on GPU 0 give the same bits at every run, whatever begins before what.
#include <cmath>
#include <cstring>

#include "plans.h"

namespace smelt::run {
namespace {

/// Kernels of one block and of many in turn, each reading what the one before wrote last.
Graph chain(int64_t rows, int64_t width, int links) {
  Builder b;
  const SymShape wide = to_sym({rows, width}), turned = to_sym({width, rows}), one = to_sym({rows, 1});
  ValueId x = b.input("x", wide, DType::f16);
  const ValueId w = b.weights("w", {width, width}, DType::f16, 0.05);
  for (int i = 0; i < links; ++i) {
    const std::string n = std::to_string(i);
    const ValueId product = b.node("product" + n, "MatMul", {x, w}, wide, DType::f16);
    const ValueId most = b.node("most" + n, "ReduceMax", {product, b.ints({1})}, one, DType::f16);
    const ValueId less = b.node("less" + n, "Sub", {product, most}, wide, DType::f16);
    const ValueId perm = b.node("turned" + n, "Transpose", {less}, turned, DType::f16, {{"perm", std::vector<int64_t>{1, 0}}});
    const ValueId back = b.node("back" + n, "Transpose", {b.node("tanh" + n, "Tanh", {perm}, turned, DType::f16)}, wide,
                                DType::f16, {{"perm", std::vector<int64_t>{1, 0}}});
    x = b.node("sum" + n, "Add", {back, x}, wide, DType::f16);
  }
  b.output(x);
  return std::move(b.g);
}

TEST(GpuSession, kernels_that_begin_early_read_what_the_one_before_wrote) {
  for (const char* libraries : {"", ",-cublaslt,-cudnn"}) {
    for (const int64_t rows : {7, 3000}) {
      const Graph g = chain(rows, 256, 12);
      Options late = on_gpu(), early = on_gpu();
      late.tactics = std::string("-early_launch") + libraries;
      early.tactics = std::string("+early_launch") + libraries;
      const Tensor x = random_tensor({rows, 256}, 2).cast(DType::f16);
      Session one(Plan::build(clone(g), late)), other(Plan::build(clone(g), early));
      const Tensor expected = one.run({{"x", x}}).begin()->second;
      for (int i = 0; i < 200; ++i) {
        const Tensor found = other.run({{"x", x}}).begin()->second;
        ASSERT_EQ(std::memcmp(found.raw(), expected.raw(), static_cast<size_t>(expected.nbytes())), 0) << "run " << i;
      }
    }
  }
}

TEST(GpuSession, gives_the_same_bits_every_time) {
  const Graph g = block(129, 1000, 1);
  Session session(Plan::build(clone(g), on_gpu()));
  const Tensor x = random_tensor({129, 1000}, 2);
  const auto first = session.run({{"x", x}});
  for (int i = 0; i < 20; ++i) {
    const auto again = session.run({{"x", x}});
    for (const auto& [name, t] : first)
      EXPECT_EQ(std::memcmp(t.raw(), again.at(name).raw(), static_cast<size_t>(t.nbytes())), 0) << name;
  }
}

/// `blocks` bottlenecks of 256 channels, 64 inside, as ResNet-50 begins with, in f16.
Graph bottlenecks(int64_t batch, int64_t side, int blocks) {
  Builder b;
  const SymShape wide = to_sym({batch, 256, side, side}), narrow = to_sym({batch, 64, side, side});
  unsigned seed = 0;
  const auto conv = [&](ValueId x, const SymShape& y, const Shape& w) {
    const double scale = 1 / std::sqrt(static_cast<double>(w[1] * w[2] * w[3]));
    Tensor weights = random_tensor(w, ++seed);
    for (float& value : weights.span<float>()) value *= static_cast<float>(scale);
    const std::string name = std::to_string(seed);
    const ValueId k = b.constant("w" + name, weights.cast(DType::f16));
    const ValueId bias = b.constant("b" + name, random_tensor({w[0]}, seed + 100).cast(DType::f16));
    return b.node("conv" + name, "Conv", {x, k, bias}, y, DType::f16, {{"pads", std::vector<int64_t>(4, w[2] / 2)}});
  };
  const auto relu = [&](ValueId x, const SymShape& y) {
    return b.node("relu" + std::to_string(++seed), "Relu", {x}, y, DType::f16);
  };
  ValueId x = b.input("x", wide, DType::f16);
  for (int i = 0; i < blocks; ++i) {
    ValueId y = relu(conv(x, narrow, {64, 256, 1, 1}), narrow);
    y = relu(conv(y, narrow, {64, 64, 3, 3}), narrow);
    y = conv(y, wide, {256, 64, 1, 1});
    x = relu(b.node("sum" + std::to_string(i), "Add", {y, x}, wide, DType::f16), wide);
  }
  b.output(x);
  return std::move(b.g);
}

TEST(GpuSession, convolutions_that_follow_each_other_give_the_same_bits_at_every_run) {
  const Graph g = bottlenecks(32, 56, 4);
  Options o = on_gpu();
  o.tuning_level = 0;
  Options own = o;
  own.tactics = "-cudnn";
  const Tensor x = random_tensor({32, 256, 56, 56}, 1).cast(DType::f16);
  const auto run = [&](const std::shared_ptr<Session>& s) { return to_host(s->run({{"x", x}}).begin()->second); };
  const auto session = std::make_shared<Session>(Plan::build(clone(g), o));
  const Tensor first = run(session);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(std::memcmp(run(session).raw(), first.raw(), static_cast<size_t>(first.nbytes())), 0) << i;
  expect_same(first.cast(DType::f32), run(std::make_shared<Session>(Plan::build(clone(g), own))).cast(DType::f32), 2e-2);
}

}  // namespace
}  // namespace smelt::run
