// Pad, CenterCropPad, Tile and the block moves on the processor: every mode, element size and layout against the reference.
#include "ops/movement/mapped_axes.h"
#include "base/memory.h"
#include "ops/movement/moved.h"
#include "support/errors.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void agrees(Trial t, int threads = 2) {
  const Tensor y = expected(t);
  if (t.bound.outputs.empty()) t.result(y.type(), y.shape());
  EXPECT_THAT(check(t, 0, threads), ElementsAre("cpu"));
}

Trial pad(const std::string& mode, DType type, const Shape& shape, std::vector<int64_t> pads) {
  Trial t = moved("Pad", type, shape, {{"mode", mode}});
  t.add(ints(std::move(pads)), true);
  return t;
}

TEST(MappedAxes, a_table_that_does_not_fit_is_an_error_before_it_is_made) {
  Trial t = pad("edge", DType::u8, {4}, {1 << 22, 0});
  t.result(DType::u8, {(1 << 22) + 4});
  t.bound.node = &t.node;
  const MemoryScope memory(std::make_shared<MemoryAccount>(int64_t{1} << 24));  // 32 MiB are asked for
  EXPECT_THAT(error_of([&] { (void)padded_axes(t.bound); }), ::testing::HasSubstr("i64[4194308] needs"));
}

TEST(MappedAxes, pad_in_every_mode_of_every_element_size) {
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    for (DType type : {DType::u8, DType::boolean, DType::f16, DType::f32, DType::i64, DType::f64}) {
      agrees(pad(mode, type, {2, 3, 7, 9}, {0, 0, 2, 3, 0, 0, 1, 4}));
      agrees(pad(mode, type, {5}, {3, 2}));
      agrees(pad(mode, type, {4, 6, 1}, {1, -2, 0, 2, 3, 0}));
      agrees(pad(mode, type, {2, 3, 2, 3, 4}, {1, 0, 1, 0, 2, 0, 1, 0, 2, 1}));
      agrees(pad(mode, type, {6, 50}, {-1, -3, -2, -4}));
    }
  }
  agrees(pad("wrap", DType::f32, {3, 4}, {0, 9, 0, 11}));
  agrees(pad("reflect", DType::f32, {3, 4}, {0, 9, 0, 11}));
}

TEST(MappedAxes, pad_fills_the_edges_of_many_stacked_rows) {
  for (DType type : {DType::u8, DType::f16, DType::f32}) agrees(pad("constant", type, {2, 3, 26, 26}, {0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(MappedAxes, pad_stacks_rows_of_hundreds_of_bytes) {
  for (const char* mode : {"constant", "reflect", "edge"})
    for (DType type : {DType::u8, DType::f32, DType::f64}) {
      agrees(pad(mode, type, {3, 21, 33}, {2, 1, 1, 0, 2, 1}));
      agrees(pad(mode, type, {2, 3, 26, 56}, {0, 0, 1, 1, 0, 0, 1, 1}));
    }
}

TEST(MappedAxes, pad_with_a_value_and_axes) {
  Trial t = pad("constant", DType::f32, {2, 5, 6}, {1, 2, 3, 4});
  t.add(Tensor::scalar(2.5f), true);
  t.add(ints({-1, 0}), true);
  agrees(std::move(t));
}

TEST(MappedAxes, read_a_value_that_is_computed) {
  Trial t = pad("constant", DType::f16, {2, 5}, {1, 2, 3, 4});
  t.add(Tensor::scalar(2.5f).cast(DType::f16), false);
  agrees(std::move(t));
}

TEST(MappedAxes, pads_that_are_computed_are_left_to_the_reference) {
  Trial t = moved("Pad", DType::f32, {2, 5});
  t.add(ints({1, 2, 3, 4}), false);
  t.result(DType::f32, {6, 11});
  EXPECT_THAT(check(t, 0), IsEmpty());
}

TEST(MappedAxes, pad_images_of_either_layout) {
  for (const Layout from : {Layout::plain, Layout::nhwc}) {
    for (const Layout to : {Layout::plain, Layout::nhwc}) {
      Trial t = pad("reflect", DType::f32, {2, 5, 7, 9}, {0, 0, 2, 3, 0, 0, 1, 4});
      t.bound.inputs[0].layout = from;
      t.result(DType::f32, {2, 5, 10, 16}, to);
      agrees(std::move(t));
    }
  }
}

TEST(MappedAxes, share_one_long_row_among_threads) {
  agrees(pad("constant", DType::f32, {200'000}, {1000, 77'777}), 4);
  agrees(pad("reflect", DType::u8, {1, 300'000}, {0, 70'000, 0, 100'001}), 4);
}

TEST(MappedAxes, tile_and_crop) {
  for (DType type : {DType::u8, DType::f16, DType::f32, DType::f64}) {
    Trial t = moved("Tile", type, {2, 3, 5});
    t.add(ints({2, 1, 3}), true);
    agrees(std::move(t));
    Trial single = moved("Tile", type, {1, 4, 1});
    single.add(ints({3, 2, 70}), true);
    agrees(std::move(single));
    Trial all = moved("Tile", type, {2, 1, 3, 2, 5});
    all.add(ints({2, 3, 2, 3, 2}), true);
    agrees(std::move(all));
    Trial crop = moved("CenterCropPad", type, {7, 10});
    crop.add(ints({4, 15}), true);
    agrees(std::move(crop));
  }
}

TEST(MappedAxes, move_blocks_of_depth_and_space) {
  for (const char* mode : {"DCR", "CRD"}) {
    for (const Layout layout : {Layout::plain, Layout::nhwc}) {
      Trial deep = moved("DepthToSpace", DType::f32, {2, 24, 5, 7}, {{"blocksize", int64_t{2}}, {"mode", std::string(mode)}});
      deep.bound.inputs[0].layout = layout;
      deep.result(DType::f32, {2, 6, 10, 14}, layout);
      agrees(std::move(deep));
    }
  }
  agrees(moved("SpaceToDepth", DType::u8, {2, 3, 12, 9}, {{"blocksize", int64_t{3}}}));
}

}  // namespace
}  // namespace smelt::ops
