// DFT and STFT on the GPU against the processor's references: every form, axis and kind of length.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

class GpuFourier : public GpuBatch {};

Tensor number(int64_t v) { return Tensor::of<int64_t>({}, {v}); }

Trial dft(const Tensor& x, int64_t length, int64_t axis, bool onesided, bool inverse) {
  return node_trial("DFT", {x, number(length), number(axis)}, {{"onesided", int64_t{onesided}}, {"inverse", int64_t{inverse}}});
}

double tolerance(DType type) { return type == DType::f64 ? 1e-13 : type == DType::f32 ? 2e-6 : type == DType::f16 ? 2e-3 : 1e-2; }

TEST_F(GpuFourier, transforms_lengths_of_small_factors) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 9, 11, 16, 22, 30, 31, 60, 62, 64, 100, 126, 400, 441, 512, 1000, 2048, 4096})
    for (const int64_t parts : {1, 2}) expect(dft(random_tensor(DType::f32, {3, n, parts}, 1), n, 1, false, false), 2e-6);
}

TEST_F(GpuFourier, takes_every_form_type_and_axis) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const int64_t n : {12, 15, 34})
      for (const int64_t length : {n, n - 3, n + 6})
        for (int form = 0; form < 4; ++form)
          for (const int64_t parts : {1, 2}) {
            const Tensor x = random_tensor(type, {3, n, 11, parts}, 1);
            expect(dft(x, length, 1, form % 2 != 0, form >= 2), tolerance(type));
            const Tensor last = random_tensor(type, {3, 11, n, parts}, 1);
            expect(dft(last, length, 2, form % 2 != 0, form >= 2), tolerance(type));
          }
}

TEST_F(GpuFourier, cuts_frames_and_windows_them) {
  for (const DType type : {DType::f32, DType::f64, DType::f16})
    for (const int64_t frame : {7, 16, 400})
      for (const int64_t step : {5, 160}) {
        const Tensor window = random_tensor(type, {frame}, 2, 0.1, 1);
        const std::map<std::string, Attribute> all{{"onesided", int64_t{0}}};
        expect(node_trial("STFT", {random_tensor(type, {2, 1000}, 1), number(step), window}), tolerance(type));
        expect(node_trial("STFT", {random_tensor(type, {2, 1000, 1}, 1), number(step), window}, all), tolerance(type));
        expect(node_trial("STFT", {random_tensor(type, {2, 1000, 2}, 1), number(step), window}, all), tolerance(type));
        expect(node_trial("STFT", {random_tensor(type, {2, 1000}, 1), number(step), Tensor(), number(frame)}), tolerance(type));
      }
}

TEST_F(GpuFourier, leaves_large_primes_and_long_lines) {
  for (const int64_t n : {37, 997, 4098, 8194}) {
    Trial t = dft(random_tensor(DType::f32, {1, n, 2}, 1), n, 1, false, false);
    t.bound.node = &t.node;
    EXPECT_THROW(offer(t.bound, gpu_machine()), Error) << n;
  }
}

}  // namespace
}  // namespace smelt::ops
