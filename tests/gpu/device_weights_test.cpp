#include <numeric>

#include "base/error.h"
#include "gpu_trial.h"

namespace smelt::ops {
namespace {

Tensor counted(int64_t n) {
  Tensor t = Tensor::empty(DType::f32, {n});
  std::iota(t.data<float>(), t.data<float>() + n, 0.0f);
  return t;
}

TEST(GpuDeviceWeights, are_uploaded_once_and_freed_with_their_last_holder) {
  DeviceWeights weights;
  const Tensor constant = counted(1000);
  int packings = 0;
  const auto pack = [&] {
    ++packings;
    Tensor twice = counted(1000);
    for (int i = 0; i < 1000; ++i) twice.data<float>()[i] *= 2;
    return twice;
  };
  auto first = weights.packed(test_gpu()->device, constant, "twice", pack);
  auto second = weights.packed(test_gpu()->device, constant, "twice", pack);
  EXPECT_EQ(packings, 1);
  EXPECT_EQ(first->address(), second->address());
  EXPECT_EQ(weights.bytes(), 4000);
  std::vector<float> back(1000);
  {
    const device::cuda::Device::Current current(*test_gpu()->device);
    device::cuda::check(device::cuda::driver().copy_to_host(back.data(), first->address(), 4000, nullptr), "downloading");
    device::cuda::check(device::cuda::driver().stream_synchronize(nullptr), "downloading");
  }
  EXPECT_EQ(back[999], 1998);
  first.reset();
  EXPECT_EQ(weights.bytes(), 4000);
  second.reset();
  EXPECT_EQ(weights.bytes(), 0);
  weights.packed(test_gpu()->device, constant, "twice", pack);
  EXPECT_EQ(packings, 2);
}

TEST(GpuDeviceWeights, another_form_of_a_constant_is_another_upload) {
  DeviceWeights weights;
  const Tensor constant = counted(10);
  const auto a = weights.packed(test_gpu()->device, constant, "a", [&] { return constant; });
  const auto b = weights.packed(test_gpu()->device, constant, "b", [&] { return constant; });
  EXPECT_NE(a->address(), b->address());
  EXPECT_EQ(weights.bytes(), 80);
}

TEST(GpuDeviceWeights, a_packing_that_fails_is_tried_again) {
  DeviceWeights weights;
  const Tensor constant = counted(10);
  EXPECT_THROW(weights.packed(test_gpu()->device, constant, "a", []() -> Tensor { fail("no"); }), Error);
  EXPECT_NE(weights.packed(test_gpu()->device, constant, "a", [&] { return constant; }), nullptr);
}

}  // namespace
}  // namespace smelt::ops
