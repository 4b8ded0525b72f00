#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

/// The same values in another order of memory.
void check_reorder(DType type, const Shape& shape, Layout from, Layout to, const Shape& from_strides = {},
                   const Shape& to_strides = {}) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Reorder";
  t.add(random_tensor(type, shape, 1, 0, 100), false, from);
  t.result(type, shape, to);
  t.bound.inputs[0].strides = from_strides;
  t.bound.outputs[0].strides = to_strides;
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = 2;
  const Offer o = offer(t.bound, machine);
  ASSERT_FALSE(o.candidates.empty());
  SCOPED_TRACE(o.problem);
  EXPECT_EQ(run(t, o.candidates[0]).to_doubles(), t.inputs[0].to_doubles());
}

TEST(Reorder, moves_images_between_layouts) {
  for (const Shape& shape :
       {Shape{1, 3, 5, 7}, Shape{2, 40, 9, 17}, Shape{1, 1, 6, 5}, Shape{3, 18, 1, 1}, Shape{1, 64, 1, 33}}) {
    for (DType type : {DType::f32, DType::f16, DType::u8, DType::i64}) {
      check_reorder(type, shape, Layout::plain, Layout::nhwc);
      check_reorder(type, shape, Layout::nhwc, Layout::plain);
      check_reorder(type, shape, Layout::nhwc, Layout::nhwc);
    }
  }
}

TEST(Reorder, reads_and_writes_slices) {
  check_reorder(DType::f32, {1, 12, 6, 7}, Layout::nhwc, Layout::plain, {6 * 7 * 30, 1, 7 * 30, 30});
  check_reorder(DType::f32, {1, 12, 6, 7}, Layout::plain, Layout::nhwc, {}, {6 * 7 * 30, 1, 7 * 30, 30});
  check_reorder(DType::f32, {2, 12, 6, 7}, Layout::nhwc, Layout::nhwc, {}, {6 * 7 * 30, 1, 7 * 30, 30});
}

}  // namespace
}  // namespace smelt::ops
