// Copies to a GPU, directly and through pinned pieces.
#include "device/cuda/upload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace smelt::device::cuda {
namespace {

/// What lies on the device after `sizes` bytes each were uploaded by so many threads equals what was given.
void expect_uploaded(const std::vector<int64_t>& sizes, int threads) {
  const auto device = Device::open(0);
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<uint32_t> from(static_cast<size_t>(all / 4 + 1)), back(from.size());
  std::iota(from.begin(), from.end(), 1u);
  const auto memory = device->allocate(all, "a test");
  std::vector<Upload> uploads;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    uploads.push_back({memory->address() + static_cast<abi::Address>(at), reinterpret_cast<const char*>(from.data()) + at, size});
    at += size;
  }
  upload(device, uploads, threads);
  const Stream stream(device);
  const Device::Current current(*device);
  check(driver().copy_to_host(back.data(), memory->address(), static_cast<size_t>(all), stream.get()), "downloading");
  stream.synchronize();
  EXPECT_EQ(std::memcmp(back.data(), from.data(), static_cast<size_t>(all)), 0);
}

TEST(GpuUpload, brings_all_bytes_of_tensors_of_every_size) {
  for (const int threads : {1, 8}) {
    expect_uploaded({3, 0, 1 << 20, 17, 4 << 20}, threads);
    expect_uploaded({(100 << 20) + 1, 7, 0, (4 << 20) - 1, 4 << 20, (8 << 20) + 5, 200 << 20}, threads);  // by pinned pieces
  }
}

}  // namespace
}  // namespace smelt::device::cuda
