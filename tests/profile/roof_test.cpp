// Ceilings that were measured, kept in a folder and read again.
#include "profile/roof.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"

namespace smelt::profile {
namespace {

class KeptCeilings : public ::testing::Test {
 protected:
  KeptCeilings() : folder_(std::filesystem::temp_directory_path() / ("smelt-roof-" + std::to_string(getpid()))) {}
  ~KeptCeilings() override { std::filesystem::remove_all(folder_); }

  device::Ceilings some(int threads) const {
    return {threads, 2.5e12, 2.75e12, 1.25, {{DType::f32, 5e13, "fma loop"}, {DType::bf16, 8e14, "wgmma loop"}}};
  }

  std::filesystem::path folder_;
};

TEST_F(KeptCeilings, of_a_gpu_are_found_by_its_identity_alone) {
  store_gpu_ceilings(folder_, "GPU-1", "NVIDIA H100", some(0));
  EXPECT_FALSE(load_gpu_ceilings(folder_, "GPU-2"));
  const auto c = load_gpu_ceilings(folder_, "GPU-1");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->threads, 0);
  EXPECT_EQ(c->read_bytes_per_s, 2.5e12);
  EXPECT_EQ(c->copy_bytes_per_s, 2.75e12);
  ASSERT_EQ(c->rates.size(), 2u);
  EXPECT_EQ(c->rates[1].type, DType::bf16);
  EXPECT_EQ(c->rates[1].how, "wgmma loop");
}

TEST_F(KeptCeilings, of_the_processor_and_of_a_gpu_lie_side_by_side) {
  store_ceilings(folder_, some(3));
  EXPECT_FALSE(load_gpu_ceilings(folder_, "GPU-1"));
  store_gpu_ceilings(folder_, "GPU-1", "NVIDIA H100", some(0));
  EXPECT_FALSE(load_ceilings(folder_, 4));
  ASSERT_TRUE(load_ceilings(folder_, 3));
  EXPECT_EQ(load_ceilings(folder_, 3)->threads, 3);
}

TEST_F(KeptCeilings, in_a_damaged_file_are_none) {
  store_gpu_ceilings(folder_, "GPU-1", "NVIDIA H100", some(0));
  for (const auto& file : std::filesystem::directory_iterator(folder_)) write_text(file.path(), "{\"threads\": 0");
  EXPECT_FALSE(load_gpu_ceilings(folder_, "GPU-1"));
}

TEST_F(KeptCeilings, make_a_roof_of_copies_and_rates) {
  const Roof roof = roof_of(some(0));
  EXPECT_EQ(roof.bytes_per_s, 2.75e12);
  EXPECT_EQ(roof.launch_us, 1.25);
  EXPECT_EQ(roof.peak(DType::bf16), 8e14);
  EXPECT_EQ(roof.peak(DType::f64), 5e13) << "a type that is not listed counts as f32";
}

}  // namespace
}  // namespace smelt::profile
