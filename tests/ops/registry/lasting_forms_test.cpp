// Forms of weights that files keep: their bytes stay what their names say.
#include <fmt/core.h>

#include "base/file.h"
#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

/// Numbers that are the same everywhere.
Tensor numbered(const Shape& shape) {
  Tensor t = Tensor::empty(DType::f32, shape);
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = static_cast<float>(i * 37 % 101 - 50);
  return t;
}

Trial convolution(const Shape& image, const Shape& weights, int64_t group, const std::string& op = "Conv", int64_t stride = 1) {
  Trial t;
  t.node = make_node(op, 0, {{"group", group}, {"strides", Ints{stride, stride}}}, 0);
  t.node.outputs.clear();
  t.add(numbered(image), false, Layout::nhwc);
  t.add(numbered(weights), true);
  const Tensor y = expected(t);
  t.result(y.type(), y.shape(), Layout::nhwc);
  return t;
}

/// The forms that candidates without oneDNN ask for, by name: of oneDNN's the name is the whole layout.
std::map<std::string, std::string> forms_of(Trial t) {
  WeightStore store;
  t.bound.node = &t.node;
  t.bound.weights = &store;
  Machine machine;
  machine.isa = "avx2";
  for (const Candidate& c : offer(t.bound, machine).candidates)
    if (c.tactic != "reference" && c.tactic != "onednn") c.prepare();
  std::map<std::string, std::string> hashes;
  for (const WeightStore::Lasting& f : store.lasting())
    hashes[f.name] = fmt::format("{:016x}", hash_bytes(f.form.raw(), f.form.nbytes()));
  return hashes;
}

/// Where one of these differs, a file of before would be read as the form of now: raise forms_version, and put the new hash here.
TEST(LastingForms, are_what_they_were_in_this_version) {
  ASSERT_EQ(forms_version, 1);
  std::map<std::string, std::string> found;
  for (const Trial& t : {convolution({1, 24, 9, 9}, {40, 24, 3, 3}, 1), convolution({1, 3, 9, 9}, {24, 3, 3, 3}, 1),
                         convolution({1, 24, 9, 9}, {24, 1, 3, 3}, 24), convolution({1, 32, 9, 9}, {48, 16, 3, 3}, 2),
                         convolution({1, 24, 9, 9}, {24, 40, 2, 2}, 1, "ConvTranspose", 2)})
    found.merge(forms_of(t));
  Trial product;
  product.node = make_node("MatMul", 0, {}, 0);
  product.node.outputs.clear();
  product.add(numbered({64, 330}), false);
  product.add(numbered({330, 40}), true);
  product.result(DType::f32, {64, 40});
  found.merge(forms_of(product));
  const std::map<std::string, std::string> known{
      {"1:f32[24x1x3x3]:depthwise", "170150e29ec73ef0"},
      {"1:f32[24x3x3x3]:igemm:1:24x3x3x3+3", "b6c01e889a943fde"},
      {"1:f32[24x40x2x2]:igemm:2:24x40x2x2:transposed:rows of taps+24", "0b7aa84bcb21ae9c"},
      {"1:f32[330x40]:igemm:40:1:1", "1dac5aa15e8e6a72"},
      {"1:f32[40x24x3x3]:igemm:0:40x24x3x3+24", "81c73c1d0f2a21eb"},
      {"1:f32[40x24x3x3]:winograd", "0410a487ffa2e9a6"},
      {"1:f32[48x16x3x3]:igemm:0:48x16x3x3+32", "e2c91e68d809fd4e"},
  };
  EXPECT_EQ(found, known);
}

}  // namespace
}  // namespace smelt::ops::test
