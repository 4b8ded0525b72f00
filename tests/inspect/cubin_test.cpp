// Cubins that NVRTC makes here, without a GPU, against what ptxas says of the same kernels; and the same files damaged.
#include "inspect/cubin.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "device/cuda/compiler.h"
#include "smelt/error.h"

namespace smelt::inspect {
namespace {

namespace cuda = device::cuda;

const cuda::Source source{"kernels",
                          R"(
extern "C" __global__ void __launch_bounds__(128) saxpy(const float4* x, float4* y, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = x[i], w = y[i];
  w.x += a * v.x; w.y += a * v.y; w.z += a * v.z; w.w += a * v.w;
  y[i] = w;
}
extern "C" __global__ void local_array(float* x, int n) {
  float local[64];
  __shared__ float s[256];
  for (int i = 0; i < 64; ++i) local[i] = x[i * n];
  s[threadIdx.x] = local[threadIdx.x & 63];
  __syncthreads();
  for (int i = 0; i < n; ++i) local[(i * 7 + threadIdx.x) & 63] += s[i & 255];
  for (int i = 0; i < 64; ++i) x[i * n + threadIdx.x] = local[i];
}
extern __shared__ float dynamic[];
extern "C" __global__ void named_barrier(float* x) {
  dynamic[threadIdx.x] = x[threadIdx.x];
  asm volatile("barrier.sync 3, 64;");
  x[threadIdx.x] = dynamic[threadIdx.x ^ 1];
}
)",
                          {}};

class CubinOf : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    if (!cuda::compiler_missing().empty()) GTEST_SKIP() << cuda::compiler_missing();
    cubin_ = cuda::compile(source, GetParam());
  }
  cuda::Cubin cubin_;
};

TEST_P(CubinOf, every_architecture_says_what_ptxas_said) {
  const Image image = read_cubin(cubin_.bytes);
  std::string arch(GetParam());
  if (arch.ends_with('a')) arch.pop_back();
  EXPECT_EQ(image.arch, arch);
  ASSERT_EQ(image.kernels.size(), cubin_.kernels.size());
  for (const Kernel& k : image.kernels) {
    const cuda::KernelResources& expected = cubin_.kernel(k.entry);
    EXPECT_EQ(k.registers, expected.registers) << k.entry;
    EXPECT_EQ(k.stack, expected.stack_bytes) << k.entry;
    EXPECT_EQ(k.static_shared, expected.static_shared_bytes) << k.entry;
    EXPECT_GT(k.code_bytes, 0);
    EXPECT_GT(k.constant, k.parameter_bytes);
  }
  const auto kernel = [&](std::string_view entry) { return *std::ranges::find(image.kernels, entry, &Kernel::entry); };
  EXPECT_EQ(kernel("saxpy").most_threads, 128);
  EXPECT_EQ(kernel("saxpy").parameters, 4);
  EXPECT_EQ(kernel("saxpy").parameter_bytes, 24);
  EXPECT_EQ(kernel("saxpy").barriers, 0);
  EXPECT_EQ(kernel("local_array").barriers, 1);
  EXPECT_EQ(kernel("local_array").stack, 256);
  EXPECT_EQ(kernel("named_barrier").barriers, 4);  // 0 to 3
}

/// An Error, or nothing; anything else ends the test.
bool refused(std::string_view bytes) {
  try {
    read_cubin(bytes);
    return false;
  } catch (const Error& e) {
    EXPECT_FALSE(std::string_view(e.what()).empty());
    return true;
  }
}

TEST_P(CubinOf, a_file_that_is_cut_off_is_refused) {
  const size_t size = cubin_.bytes.size();
  size_t read = 0, tried = 0;
  for (size_t length = 0; length < size; length += length < 2000 ? 1 : 61) {
    ++tried;
    read += !refused(std::string_view(cubin_.bytes).substr(0, length));
  }
  // Program headers, which describe what to load, may stand last; nothing of them is read.
  EXPECT_LT(read, tried / 10);
}

TEST_P(CubinOf, flipped_bits_are_read_or_refused) {
  std::mt19937 random(7);
  int refusals = 0;
  const size_t headers = 64 * 60, size = cubin_.bytes.size();
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = cubin_.bytes;
    for (int n = 0; n <= i % 3; ++n) {
      // In the ELF header, among the section headers near the end, or anywhere.
      const size_t at = n == 0 && i % 4 == 0 ? random() % 64
                        : i % 2              ? size - 1 - random() % std::min(headers, size)
                                             : random() % size;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    }
    refusals += refused(bytes);
  }
  EXPECT_GT(refusals, 300);
}

/// An ELF file for a GPU whose sections' names are tails of one text.
std::string overlapping_names(size_t sections, size_t longest) {
  std::string bytes(64 + 64 * sections, '\0');
  const auto put = [&](size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  bytes.replace(0, 8,
                std::string("\x7f"
                            "ELF\2\1\1",
                            7) +
                    '\0');
  put(18, uint16_t{190});
  put(40, uint64_t{64});
  put(58, uint16_t{64});
  put(60, static_cast<uint16_t>(sections));
  put(62, uint16_t{1});
  for (size_t s = 0; s < sections; ++s) put(64 + 64 * s, static_cast<uint32_t>(s));
  put(128 + 24, static_cast<uint64_t>(bytes.size()));
  put(128 + 32, static_cast<uint64_t>(longest + 1));
  return bytes + std::string(longest, 'a') + '\0';
}

TEST(Cubin, names_that_lie_on_top_of_each_other_take_no_more_than_the_file) {
  const auto said = [](const std::string& bytes) {
    try {
      return read_cubin(bytes), std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(said(overlapping_names(4, 100)), HasSubstr("no kernel"));
  EXPECT_THAT(said(overlapping_names(60000, 4 << 20)), HasSubstr("its names lie on top of each other"));  // 250 GB of names
}

INSTANTIATE_TEST_SUITE_P(Architectures, CubinOf, ::testing::ValuesIn(cuda::known_archs().begin(), cuda::known_archs().end()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::inspect
