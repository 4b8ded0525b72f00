// Random numbers on the processor: the reference's, bit for bit, for any number of threads.
#include <random>

#include "ops/generate/twister.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

TEST(Twister, gives_the_words_of_the_standard_library) {
  for (const uint32_t seed : {0u, 1u, 5489u, 0xffffffffu}) {
    Twister own(seed);
    std::mt19937 theirs(seed);
    std::vector<uint32_t> words(3 * Twister::words);
    own.next(words.data(), 2);
    own.next(words.data() + 2 * Twister::words, 1);
    for (const uint32_t w : words) ASSERT_EQ(w, theirs());
  }
}

Trial drawn(const std::string& op, DType type, const Shape& shape, Tensor input = {}) {
  Trial t;
  t.node.op = op;
  t.node.attrs = {{"seed", 7.0f}, {"dtype", static_cast<int64_t>(type)}};
  if (op == "RandomNormal" || op == "RandomUniform") t.node.attrs["shape"] = shape;
  if (op.starts_with("RandomNormal")) t.node.attrs["mean"] = 3.0f, t.node.attrs["scale"] = 0.5f;
  if (op.starts_with("RandomUniform")) t.node.attrs["low"] = -2.0f, t.node.attrs["high"] = 5.0f;
  if (input.valid()) t.add(std::move(input), false);
  t.result(type, shape);
  return t;
}

// Chunks hold 39936 numbers of uniform distribution.
const Shape shapes[] = {{1}, {7, 3}, {39'936}, {39'937}, {3, 100, 400}};

TEST(RandomTactics, give_the_references_numbers) {
  for (const DType type : {DType::f32, DType::f64})
    for (const Shape& shape : shapes)
      for (const int threads : {1, 2, 5})
        for (const char* op : {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"}) {
          const bool like = std::string(op).ends_with("Like");
          Trial t = drawn(op, type, shape, like ? Tensor::zeros(DType::f32, shape) : Tensor());
          EXPECT_THAT(check(t, 0, threads), ElementsAre("cpu")) << op << name(type) << to_string(shape) << threads;
        }
}

TEST(RandomTactics, draw_bernoulli_of_every_type) {
  for (const DType type :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u16, DType::i32, DType::i64, DType::boolean})
    for (const DType of : {DType::f32, DType::f64})
      for (const Shape& shape : shapes)
        for (const int threads : {1, 3}) {
          Trial t = drawn("Bernoulli", type, shape, random_tensor(of, shape, 2, 0, 1));
          EXPECT_THAT(check(t, 0, threads), ElementsAre("cpu")) << name(type) << to_string(shape) << threads;
        }
}

TEST(RandomTactics, draw_classes) {
  for (const DType type : {DType::i32, DType::i64})
    for (const int64_t samples : {1, 300})
      for (const int threads : {1, 3}) {
        Trial t = drawn("Multinomial", type, {150, samples}, random_tensor(DType::f32, {150, 37}, 2, -3, 1));
        t.node.attrs["sample_size"] = samples;
        EXPECT_THAT(check(t, 0, threads), ElementsAre("cpu")) << samples << threads;
      }
}

}  // namespace
}  // namespace smelt::ops
