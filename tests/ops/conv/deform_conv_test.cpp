// DeformConv's kernel (ops/conv/cpu_deform.cpp).
#include <cmath>
#include <limits>

#include "ops/one_store.h"

namespace smelt::ops {
namespace {

using testing::Contains;

struct Form {
  int64_t n, c, m, group, offset_group, height, width, kernel, stride, pad, dilation;
  bool mask, bias;
};

Trial deform(const Form& f) {
  Trial t;
  t.node.op = "DeformConv";
  const auto both = [](int64_t v) { return std::vector<int64_t>{v, v}; };
  t.node.attrs = {{"strides", both(f.stride)},
                  {"pads", std::vector<int64_t>(4, f.pad)},
                  {"dilations", both(f.dilation)},
                  {"group", f.group},
                  {"offset_group", f.offset_group}};
  const auto out = [&](int64_t extent) { return (extent + 2 * f.pad - (f.kernel - 1) * f.dilation - 1) / f.stride + 1; };
  const int64_t rows = out(f.height), columns = out(f.width), taps = f.kernel * f.kernel;
  t.add(random_tensor(DType::f32, {f.n, f.c, f.height, f.width}, 1), false);
  t.add(random_tensor(DType::f32, {f.m, f.c / f.group, f.kernel, f.kernel}, 2), true);
  Tensor offset = random_tensor(DType::f32, {f.n, f.offset_group * taps * 2, rows, columns}, 3);
  for (float& v : offset.span<float>()) v *= 2.5f;
  t.add(offset, false);
  t.add(f.bias ? random_tensor(DType::f32, {f.m}, 4) : Tensor{}, f.bias);
  if (f.mask) t.add(random_tensor(DType::f32, {f.n, f.offset_group * taps, rows, columns}, 5), false);
  t.result(DType::f32, {f.n, f.m, rows, columns});
  return t;
}

TEST(DeformConvTactic, agrees_with_the_reference_over_its_attributes) {
  const Form forms[] = {{1, 16, 24, 1, 1, 9, 11, 3, 1, 1, 1, false, true},
                        {2, 8, 8, 1, 2, 7, 7, 3, 2, 1, 1, true, false},
                        {1, 12, 6, 2, 3, 8, 5, 3, 1, 2, 2, true, true},
                        {1, 12, 6, 3, 2, 8, 5, 1, 1, 0, 1, false, false},
                        {3, 1, 1, 1, 1, 12, 13, 5, 1, 2, 1, true, true}};
  for (const Form& f : forms) {
    Trial t = deform(f);
    EXPECT_THAT(check(t, 1e-5), Contains("avx2")) << f.c << " " << f.group;
  }
}

TEST(DeformConvTactic, groups_of_other_numbers_share_no_form_of_one_weight) {
  Trial one = deform({1, 8, 16, 1, 1, 7, 7, 3, 1, 1, 1, false, false}),
        two = deform({1, 16, 16, 2, 1, 7, 7, 3, 1, 1, 1, false, false});
  share(one, 1, two, 1);
  WeightStore store;
  for (Trial* t : {&one, &two}) {
    const Tensor y = run_sharing(*t, store, "avx2");
    ASSERT_TRUE(y.valid());
    EXPECT_LE(error(y, expected(*t)), 1e-5);
  }
}

TEST(DeformConvTactic, reads_nothing_outside_of_the_image_nor_where_a_place_is_no_number) {
  Trial t = deform({1, 8, 8, 1, 1, 6, 6, 3, 1, 1, 1, true, true});
  auto offset = t.inputs[2].span<float>();
  const float odd[] = {
      std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1e30f, 1e30f, 0.0f, -6.0f};
  for (size_t i = 0; i < offset.size(); ++i) offset[i] = odd[i % 6];
  EXPECT_THAT(check(t, 1e-5), Contains("avx2"));
}

}  // namespace
}  // namespace smelt::ops
