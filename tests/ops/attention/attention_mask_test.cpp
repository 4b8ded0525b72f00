// What is known of an attention's mask at build time, and that it is found once.
#include "ops/attention/cuda_mask.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cuda/forms.h"

namespace smelt::ops {
namespace {

constexpr int64_t queries = 5, keys = 7;

/// A mask of i + offset < j.
Tensor causal_mask(int64_t offset) {
  Tensor t = Tensor::empty(DType::boolean, {queries, keys});
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) t.data<bool>()[i * keys + j] = j > i + offset;
  return t;
}

Form masked(Tensor mask) {
  return Form("Attention", smelt_domain, {{"scale", 0.1f}},
              "(in0:f32, in1:bool) { %2 = const(-inf):f32; %3 = select(in1, %2, in0):f32; return %3 }")
      .in(DType::f16, {1, 2, queries, 16})
      .in(DType::f16, {1, 2, keys, 16})
      .in(DType::f16, {1, 2, keys, 16})
      .in(std::move(mask))
      .out(DType::f16, {1, 2, queries, 16});
}

ScoreMask mask_in(ScoreMasks& masks, Form& f) {
  f.bound.node = &f.node;
  return masks.of(f.bound, AttentionCuda(f.bound));
}

TEST(ScoreMasks, are_those_of_each_mask) {
  ScoreMasks masks;
  for (const int64_t offset : {0, 2, 0}) {
    Form f = masked(causal_mask(offset));
    const ScoreMask mask = mask_in(masks, f);
    EXPECT_EQ(mask.kind, MaskKind::causal);
    EXPECT_EQ(mask.offset, offset);
  }
  Form none = masked(causal_mask(keys));
  EXPECT_EQ(mask_in(masks, none).kind, MaskKind::none);
  Form given = masked(Tensor());
  given.bound.inputs[3] = {DType::boolean, {queries, keys}, Layout::plain, {}, {}};
  EXPECT_EQ(mask_in(masks, given).kind, MaskKind::program);
}

TEST(ScoreMasks, look_at_a_mask_once_and_keep_its_memory) {
  ScoreMasks masks;
  Tensor mask = causal_mask(0);
  bool* const first = mask.data<bool>();
  Form f = masked(mask);
  EXPECT_EQ(mask_in(masks, f).kind, MaskKind::causal);
  std::fill_n(first, queries * keys, false);  // constants do not change: a second look would find that it hides nothing
  EXPECT_EQ(mask_in(masks, f).kind, MaskKind::causal);
  f = masked(Tensor());
  mask = Tensor();
  EXPECT_NE(causal_mask(keys).data<bool>(), first);
}

}  // namespace
}  // namespace smelt::ops
