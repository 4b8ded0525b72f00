// What a report says of the GPU that it was measured on.
#include "report/gpus.h"

#include <gmock/gmock.h>

namespace smelt::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> printed(const std::vector<Fact>& facts) {
  std::vector<std::string> all;
  for (const Fact& f : facts) all.push_back(f.key + "=" + format(f.value, Unit::text));
  return all;
}

TEST(GpuFacts, name_the_device) {
  device::cuda::DeviceInfo gpu;
  gpu.name = "NVIDIA H200";
  gpu.arch = "sm_90a";
  gpu.memory_bytes = int64_t{139} << 30;
  gpu.clock_mhz = 1980;
  EXPECT_THAT(printed(gpu_facts(gpu)),
              ElementsAre("gpu=NVIDIA H200", "gpu_arch=sm_90a", "gpu_memory_bytes=139 GiB", "gpu_clock_mhz=1980"));
}

TEST(GpuFacts, name_the_libraries_that_were_found) {
  const device::cuda::LibraryState libraries[] = {{"NVRTC", "13.0", "libnvrtc.so.13", ""},
                                                  {"cuDNN", "", "", "libcudnn.so.9 was not found"},
                                                  {"cuBLASLt", "13.1.0", "libcublasLt.so.13", ""}};
  EXPECT_THAT(printed(library_facts(libraries)), ElementsAre("nvrtc=13.0", "cublaslt=13.1.0"));
}

TEST(GpuFacts, the_processor_has_none) {
  std::vector<Fact> machine, versions;
  add_gpu_facts("cpu", machine, versions);
  EXPECT_THAT(machine, IsEmpty());
  EXPECT_THAT(versions, IsEmpty());
}

}  // namespace
}  // namespace smelt::report
