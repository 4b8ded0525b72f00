// RotaryEmbedding, ONNX's and ONNX Runtime's, on the CPU against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;

struct Case {
  Shape x;
  int64_t rotated, heads = 0;
  bool positions = false, interleaved = false;
};

Trial trial(const Case& c, DType type, bool of_runtime) {
  Trial t;
  t.node.op = "RotaryEmbedding";
  t.node.domain = of_runtime ? microsoft_domain : onnx_domain;
  t.node.opset = 23;
  t.node.attrs["interleaved"] = int64_t{c.interleaved};
  t.node.attrs["num_heads"] = c.heads;
  if (c.heads == 0 || c.rotated != c.x.back() / c.heads) t.node.attrs["rotary_embedding_dim"] = c.rotated;
  if (of_runtime) t.node.attrs["scale"] = 0.75f;
  const int64_t batch = c.x[0], steps = c.x[c.x.size() - 2], rows = 2 * batch * steps;
  const Shape cache = c.positions ? Shape{rows, c.rotated / 2} : Shape{batch, steps, c.rotated / 2};
  std::vector<int64_t> at;
  for (int64_t i = 0; i < batch * steps; ++i) at.push_back(i * 7 % rows);
  const Tensor positions = c.positions ? Tensor::of<int64_t>({batch, steps}, at) : Tensor();
  t.add(random_tensor(type, c.x, 1), false);
  if (of_runtime) t.add(positions, false);
  t.add(random_tensor(type, cache, 2), false);
  t.add(random_tensor(type, cache, 3), false);
  if (!of_runtime && c.positions) t.add(positions, false);
  t.result(type, c.x);
  return t;
}

TEST(RotaryTactics, agree_with_the_reference) {
  const Case cases[] = {
      {{2, 3, 5, 64}, 64},
      {{2, 3, 5, 64}, 64, 0, true},
      {{1, 2, 4, 20}, 12, 0, true},
      {{2, 5, 48}, 16, 3, true},
      {{2, 5, 48}, 16, 3, true, true},
      {{2, 3, 5, 64}, 64, 0, false, true},
      {{1, 2, 4, 20}, 14, 0, true, true},
  };
  for (const Case& c : cases)
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const bool of_runtime : {false, true}) {
        if (of_runtime && !c.positions) continue;  // ONNX Runtime's has them always
        Trial t = trial(c, type, of_runtime);
        const double tolerance = type == DType::f32 ? 1e-6 : type == DType::f16 ? 2e-3 : 1e-2;
        EXPECT_THAT(check(t, tolerance), Contains("cpu")) << to_string(c.x) << c.rotated << of_runtime;
      }
}

TEST(RotaryTactics, refuse_a_position_outside_of_the_cache) {
  Trial t = trial({{1, 2, 4, 16}, 16, 0, true}, DType::f32, false);
  t.inputs[3].data<int64_t>()[2] = 8;
  t.bound.node = &t.node;
  for (const Candidate& c : offer(t.bound, Machine{}).candidates) EXPECT_ANY_THROW(run(t, c)) << c.tactic;
}

}  // namespace
}  // namespace smelt::ops
