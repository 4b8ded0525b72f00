// Concatenations whose rows are apart: kernels copy each input into its slice of the result (plan/concat_kernels.h).
#include <cstring>
#include <map>
#include <random>

#include "gpu/plans.h"

namespace smelt::run {
namespace {

/// Bytes at random of a type: a copy keeps all of them.
Tensor any_bytes(DType type, const Shape& shape, std::mt19937& random) {
  Tensor t = Tensor::empty(type, shape);
  auto* bytes = static_cast<uint8_t*>(t.raw());
  for (int64_t i = 0; i < t.nbytes(); ++i) bytes[i] = static_cast<uint8_t>(type == DType::boolean ? random() % 2 : random());
  return t;
}

TEST(GpuConcat, parts_of_any_size_and_type_lie_in_their_places) {
  constexpr DType types[] = {DType::u8, DType::boolean, DType::f16, DType::bf16, DType::f32, DType::i64, DType::f64};
  for (unsigned seed = 0; seed < 28; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
    const DType type = types[seed % std::size(types)];
    const int64_t rank = 2 + below(3), axis = 1 + below(rank - 1);
    Shape shape;
    for (int64_t a = 0; a < rank; ++a) shape.push_back(1 + below(seed % 5 == 0 ? 40 : 9));
    Builder b;
    std::vector<ValueId> parts;
    std::vector<Tensor> in;
    std::map<std::string, Tensor> feeds;
    const int64_t count = 2 + below(3);
    shape[0] += 1;
    int64_t extent = 0;
    for (int64_t i = 0; i < count; ++i) {
      Shape own = shape;
      own[static_cast<size_t>(axis)] = 1 + below(20);
      if (i + 1 == count && seed % 3 == 0) {  // one of them twice
        parts.push_back(parts[0]);
        extent += in[0].shape()[static_cast<size_t>(axis)];
        break;
      }
      const std::string name = "x" + std::to_string(i);
      in.push_back(any_bytes(type, own, random));
      feeds[name] = in.back();
      parts.push_back(b.input(name, to_sym(own), type));
      extent += own[static_cast<size_t>(axis)];
    }
    Shape all = shape;
    all[static_cast<size_t>(axis)] = extent;
    b.output(b.node("y", "Concat", parts, to_sym(all), type, {{"axis", axis}}));
    const std::vector<Tensor> want = ops::evaluate(b.g, in);
    Options options = on_gpu();
    options.tuning_level = 0;
    const auto plan = Plan::build(std::move(b.g), options);
    for (const StepInfo& s : plan->steps()) EXPECT_EQ(s.tactic, "cuda") << s.name;
    Session session(plan);
    const Tensor y = to_host(session.run(feeds).begin()->second);
    ASSERT_EQ(y.shape(), want[0].shape());
    EXPECT_EQ(std::memcmp(y.raw(), want[0].raw(), static_cast<size_t>(y.nbytes())), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace smelt::run
