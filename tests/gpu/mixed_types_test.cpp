// Operands of several types, with numbers from the ends of their ranges, and bools of any bytes.
#include <random>

#include "gpu/gpu_batch.h"
#include "gpu/plans.h"

namespace smelt::ops {
namespace {

/// Numbers around powers of two of every size, and small ones.
Tensor edges(DType type, int64_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> whole(static_cast<size_t>(count));
  for (int64_t& v : whole)
    v = random() % 2 ? static_cast<int64_t>(random() % 9) - 4
                     : static_cast<int64_t>((uint64_t{1} << random() % 64) + random() % 3 - 1);
  if (is_float(type))
    for (int64_t& v : whole) v = static_cast<int64_t>(random() % 9) - 4;
  return Tensor::of<int64_t>({count}, whole).cast(type);
}

class GpuMixedTypes : public GpuBatch {
 protected:
  /// Inputs that the kernel reads, as they are in models that compute all of them.
  void expect_computed(Trial t, double tolerance = 0) {
    for (BoundTensor& b : t.bound.inputs) b.constant = Tensor();
    expect(std::move(t), tolerance);
  }
};

TEST_F(GpuMixedTypes, powers_take_exponents_that_the_bases_type_does_not_hold) {
  for (const DType base : {DType::i32, DType::i64})
    for (const DType by : {DType::i8, DType::i32, DType::i64, DType::u32, DType::u64, DType::u16})
      expect_computed(node_trial("Pow", {edges(base, 300, 1), edges(by, 300, 2)}));
  for (const DType by : {DType::i64, DType::i32})  // (-1) ^ (2^24 + 1)
    expect_computed(node_trial("Pow", {Tensor::of<float>({2}, {-1, 1}), Tensor::of<int64_t>({2}, {(1 << 24) + 1, 7}).cast(by)}));
}

TEST_F(GpuMixedTypes, shifts_and_remainders_of_whole_ranges) {
  for (const DType t : {DType::i8, DType::i32, DType::i64, DType::u8, DType::u32, DType::u64}) {
    expect_computed(node_trial("Mod", {edges(t, 300, 1), edges(t, 300, 2)}));
    expect_computed(node_trial("BitShift", {edges(t, 300, 1), edges(t, 300, 2)}, {{"direction", std::string("RIGHT")}}));
    expect_computed(node_trial("Less", {edges(t, 300, 1), edges(t, 300, 2)}));
  }
}

/// Bytes of which all but 0 are true.
Tensor odd_bytes(int64_t count) {
  Tensor t = Tensor::empty(DType::boolean, {count});
  constexpr uint8_t bytes[] = {2, 0, 255, 1, 128, 0, 3, 4};
  for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(t.raw())[i] = bytes[i % 8];
  return t;
}
Tensor as_0_or_1(const Tensor& t) {
  Tensor r = t.clone();
  for (int64_t i = 0; i < t.size(); ++i) static_cast<uint8_t*>(r.raw())[i] = static_cast<uint8_t*>(r.raw())[i] != 0;
  return r;
}

TEST_F(GpuMixedTypes, pointwise_kernels_take_bools_of_any_bytes) {
  const Tensor odd = odd_bytes(200), plain = as_0_or_1(odd), other = edges(DType::i32, 200, 3).cast(DType::boolean);
  const Tensor x = random_tensor(DType::f32, {200}, 1), y = random_tensor(DType::f32, {200}, 2);
  std::vector<Trial> trials;
  for (const char* op : {"And", "Or", "Xor", "Equal"}) trials.push_back(node_trial(op, {plain, other}));
  trials.push_back(node_trial("Not", {plain}));
  trials.push_back(node_trial("Cast", {plain}, {{"to", int64_t{1}}}));
  trials.push_back(node_trial("Where", {plain, x, y}));
  for (Trial& t : trials) {
    const std::vector<Tensor> want = evaluate(t.node, t.inputs);
    for (BoundTensor& b : t.bound.inputs) b.constant = Tensor();
    t.inputs[0] = odd;
    EXPECT_FALSE(agree_on_gpu(t, want, 0).empty()) << t.node.op;
  }
}

}  // namespace
}  // namespace smelt::ops

namespace smelt::run {
namespace {

/// What a caller has on the GPU is as good as what it has on the host (tests/python/test_odd_feeds.py), and is not written to.
TEST(GpuSession, bools_of_any_bytes_that_lie_on_the_gpu_are_true) {
  using Make = std::function<ValueId(Builder&, ValueId, ValueId)>;
  const auto two = [](const char* op) {
    return [op](Builder& b, ValueId x, ValueId c) { return b.node(op, op, {x, c}, to_sym({200}), DType::boolean); };
  };
  const std::vector<Make> makes = {
      two("And"),
      two("Xor"),
      two("Equal"),
      [](Builder& b, ValueId x, ValueId) { return b.node("same", "Identity", {x}, to_sym({200}), DType::boolean); },
      [](Builder& b, ValueId x, ValueId c) {
        return b.node("both", "Concat", {x, c}, to_sym({400}), DType::boolean, {{"axis", int64_t{0}}});
      },
      [](Builder& b, ValueId x, ValueId) {
        return b.node("places", "NonZero", {x}, {Dim(1), Dim("n")}, DType::i64);
      },
      [](Builder& b, ValueId x, ValueId c) {
        return b.node("found", "Compress", {c, x}, {Dim("n")}, DType::boolean);
      },
      [](Builder& b, ValueId x, ValueId) {
        return b.node("chosen", "Where", {x, b.weights("w", {200}), b.weights("v", {200})}, to_sym({200}));
      },
  };
  Tensor odd = Tensor::empty(DType::boolean, {200}), other = Tensor::zeros(DType::boolean, {200});
  for (int64_t i = 0; i < 200; ++i) static_cast<uint8_t*>(odd.raw())[i] = i % 3 == 0 ? 0 : static_cast<uint8_t>(i);
  for (int64_t i = 0; i < 200; i += 2) static_cast<uint8_t*>(other.raw())[i] = 1;
  for (const Make& make : makes) {
    Builder b;
    const ValueId x = b.input("x", to_sym({200}), DType::boolean), c = b.input("c", to_sym({200}), DType::boolean);
    b.output(make(b, x, c));
    Tensor plain = odd.clone();
    for (int64_t i = 0; i < 200; ++i) static_cast<uint8_t*>(plain.raw())[i] = static_cast<uint8_t*>(odd.raw())[i] != 0;
    const std::vector<Tensor> want = ops::evaluate(b.g, std::vector{plain, other});
    Options options = on_gpu();
    options.allow_fallback = true;
    const auto plan = Plan::build(std::move(b.g), options);
    const Tensor placed = plan->place(odd);
    Session session(plan);
    for (int run = 0; run < 2; ++run) {
      const auto got = session.run({{"x", placed}, {"c", plan->place(other)}});
      const Tensor y = to_host(got.begin()->second);
      ASSERT_EQ(y.shape(), want[0].shape());
      EXPECT_EQ(std::memcmp(y.raw(), want[0].raw(), static_cast<size_t>(y.nbytes())), 0) << plan->steps()[0].op;
    }
    EXPECT_EQ(std::memcmp(to_host(placed).raw(), odd.raw(), 200), 0);
  }
}

}  // namespace
}  // namespace smelt::run
