// One tile's product by every tensor-core instruction, with its operands' way through shared memory, against a plain loop: whole
// numbers, so that the sums are exact.
#include <gmock/gmock.h>

#include <random>

#include "device/cuda/module.h"
#include "smelt/tensor.h"
#include "support/mma_kernel.h"

namespace smelt::device::cuda {
namespace {

struct Tile {
  const char* a;
  const char* b;
  DType a_type, b_type;
  bool transposed = false;
  int bytes = 16;
};

std::string mma_name(const ::testing::TestParamInfo<Tile>& info) {
  const Tile& t = info.param;
  return fmt::format("{}_{}{}_by_{}", t.a, t.b, t.transposed ? "_transposed" : "", t.bytes);
}

class MmaTile : public ::testing::TestWithParam<Tile> {};

TEST_P(MmaTile, is_the_product) {
  const Tile t = GetParam();
  const auto device = Device::open(0);
  if (t.a_type != DType::f16 && t.a_type != DType::u8 && t.a_type != DType::i8 && device->info().major < 8)
    GTEST_SKIP() << "an instruction of sm_80";
  const Module module(
      device,
      std::make_shared<Cubin>(compile({"tile", test::mma_kernel(t.a, t.b, t.transposed, t.bytes), {}}, device->info().arch)),
      "tile");
  const int64_t k = 32 / bytes(t.a_type, 1);
  std::mt19937 random(7);
  const auto whole = [&](DType type, const Shape& shape) {
    Tensor f = Tensor::empty(DType::f32, shape);
    std::uniform_int_distribution<int> values(type == DType::u8 ? 0 : -100, type == DType::u8 ? 255 : 100);
    for (float& v : f.span<float>()) v = static_cast<float>(values(random));
    return f;
  };
  const Tensor a = whole(t.a_type, {16, k}), b = whole(t.b_type, t.transposed ? Shape{k, 8} : Shape{8, k});
  const Tensor a_bytes = a.cast(t.a_type), b_bytes = b.cast(t.b_type);
  const auto a_at = device->allocate(a_bytes.nbytes(), "a"), b_at = device->allocate(b_bytes.nbytes(), "b"),
             d_at = device->allocate(16 * 8 * 4, "d");
  const Stream stream(device);
  const Device::Current current(*device);
  check(driver().copy_to_device(a_at->address(), a_bytes.raw(), static_cast<size_t>(a_bytes.nbytes()), stream.get()), "copying");
  check(driver().copy_to_device(b_at->address(), b_bytes.raw(), static_cast<size_t>(b_bytes.nbytes()), stream.get()), "copying");
  abi::Address pointers[] = {a_at->address(), b_at->address(), d_at->address()};
  void* parameters[] = {&pointers[0], &pointers[1], &pointers[2]};
  module.function("tile").launch({.block = {32, 1, 1}}, parameters, stream.get());
  const bool integers = t.a_type == DType::u8 || t.a_type == DType::i8;
  Tensor d = Tensor::empty(integers ? DType::i32 : DType::f32, {16, 8});
  check(driver().copy_to_host(d.raw(), d_at->address(), static_cast<size_t>(d.nbytes()), stream.get()), "copying");
  stream.synchronize();
  const std::vector<double> sums = d.to_doubles();
  for (int64_t m = 0; m < 16; ++m)
    for (int64_t n = 0; n < 8; ++n) {
      double want = 0;
      for (int64_t i = 0; i < k; ++i)
        want += static_cast<double>(a.data<float>()[m * k + i]) *
                static_cast<double>(t.transposed ? b.data<float>()[i * 8 + n] : b.data<float>()[n * k + i]);
      ASSERT_EQ(sums[static_cast<size_t>(m * 8 + n)], want) << "at " << m << ", " << n;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Types, MmaTile,
    ::testing::Values(Tile{"f16", "f16", DType::f16, DType::f16}, Tile{"f16", "f16", DType::f16, DType::f16, true, 8},
                      Tile{"bf16", "bf16", DType::bf16, DType::bf16, false, 4},
                      Tile{"bf16", "bf16", DType::bf16, DType::bf16, true, 2}, Tile{"tf32", "tf32", DType::f32, DType::f32},
                      Tile{"i8", "i8", DType::i8, DType::i8}, Tile{"i8", "u8", DType::i8, DType::u8},
                      Tile{"u8", "i8", DType::u8, DType::i8, false, 1}, Tile{"u8", "u8", DType::u8, DType::u8}),
    mma_name);

}  // namespace
}  // namespace smelt::device::cuda
