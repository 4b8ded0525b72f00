// Normalisations of single tensors on GPU 0, on a stream of the caller's, against the processor's.
#include "run/eager_norm.h"

#include <cstring>

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/cuda/graph.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

namespace cuda = device::cuda;

/// On the GPU, with the memory that it lies in.
Tensor placed(const Tensor& t) {
  if (!t.valid()) return t;
  const auto device = cuda::Device::open(0);
  auto memory = device->allocate(t.nbytes(), "a test");
  const cuda::Device::Current current(*device);
  cuda::check(cuda::driver().copy_to_device(memory->address(), t.raw(), static_cast<size_t>(t.nbytes()), nullptr), "uploading");
  cuda::check(cuda::driver().stream_synchronize(nullptr), "uploading");
  void* address = reinterpret_cast<void*>(memory->address());
  return Tensor::borrow(t.type(), t.shape(), address, std::move(memory));
}

TEST(GpuEagerNorm, agrees_with_the_processor) {
  const auto device = cuda::Device::open(0);
  const cuda::Stream stream(device);
  for (const bool centre : {false, true}) {
    for (const Shape& shape : {Shape{5, 1000}, Shape{2, 3, 4099}}) {
      const EagerNorm how{centre, 1e-3f};
      const Tensor x = random_tensor(shape, 1).cast(DType::bf16),
                   r = centre ? random_tensor(shape, 4).cast(DType::bf16) : Tensor(), weight = random_tensor({shape.back()}, 2),
                   bias = centre ? random_tensor({shape.back()}, 3) : Tensor();
      Tensor want = Tensor::empty(DType::bf16, shape), want_sum = r.valid() ? Tensor::empty(DType::bf16, shape) : Tensor();
      eager_norm(how, x, r, weight, bias, want, want_sum, nullptr);
      Tensor y = placed(Tensor::zeros(DType::bf16, shape)),
             sum = r.valid() ? placed(Tensor::zeros(DType::bf16, shape)) : Tensor();
      eager_norm(how, placed(x), placed(r), placed(weight), placed(bias), y, sum, stream.get());
      stream.synchronize();
      expect_same(to_host(y), want, 0.04);
      if (r.valid()) expect_same(to_host(sum), want_sum, 0);
      Tensor none;
      EXPECT_THROW(eager_norm(how, placed(x), r, weight, bias, y, none, stream.get()), Error) << "the weight is the host's";
    }
  }
}

TEST(GpuEagerNorm, is_captured_once_its_kernel_is_chosen) {
  const auto device = cuda::Device::open(0);
  const Tensor values = random_tensor({3, 520}, 1), x = placed(values);
  Tensor y = placed(Tensor::zeros(DType::f32, {3, 520})), none;
  const auto enqueue = [&](cuda::abi::Stream stream) { eager_norm({}, x, {}, {}, {}, y, none, stream); };
  const cuda::Stream stream(device);
  Tensor row = placed(Tensor::zeros(DType::f32, {8}));
  eager_norm({}, placed(random_tensor({8}, 2)), {}, {}, {}, row, none, stream.get());  // opens the GPU for normalisations
  EXPECT_THROW(cuda::CapturedGraph(device, enqueue), Error);
  enqueue(stream.get());
  stream.synchronize();
  const Tensor first = to_host(y);
  const cuda::CapturedGraph graph(device, enqueue);
  EXPECT_EQ(graph.nodes(), 1u);
  graph.launch(stream.get());
  stream.synchronize();
  expect_same(to_host(y), first, 0);
  const auto twice = [&](cuda::abi::Stream s) { enqueue(s), enqueue(s); };
  EXPECT_EQ(cuda::CapturedGraph(device, twice).early_nodes(), 0u);
  EXPECT_EQ(cuda::CapturedGraph(device, twice, true).early_nodes(), device->info().major >= 9 ? 1u : 0u);
}

}  // namespace
}  // namespace smelt::run
