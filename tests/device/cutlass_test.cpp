// Where CuTe's headers are looked for, and what is said where they are not: folders that are made up.
#include "device/cuda/cutlass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "device/cuda/compiler.h"
#include "device/cuda/cubins.h"
#include "support/paths.h"

namespace smelt::device::cuda {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Cutlass : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }
  std::string folder(const std::string& name, const std::vector<std::pair<std::string, std::string>>& files) const {
    const fs::path at = root_ / name;
    for (const auto& [file, text] : files) {
      fs::create_directories((at / file).parent_path());
      write_text(at / file, text);
    }
    return at.string();
  }
  std::string cutlass() const {
    return folder("cutlass",
                  {{"cute/tensor.hpp", ""},
                   {"cutlass/version.h", "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 1\n"}});
  }

 private:
  const fs::path root_ = build_dir() / "test_cutlass" / ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Cutlass, is_found_beside_a_toolkit_whose_standard_library_lies_below) {
  const std::string cuda =
      folder("cuda", {{"cuda_fp16.h", ""}, {"cuda.h", "#define CUDA_VERSION 13000\n"}, {"cccl/cuda/std/tuple", ""}});
  const CutlassHeaders found = find_cutlass({"/nowhere", cutlass()}, {"/nowhere", cuda});
  EXPECT_EQ(found.missing, "");
  EXPECT_EQ(found.version, "CUTLASS 4.2.1 beside CUDA 13.0's headers");
  EXPECT_EQ(found.folders, (std::vector<std::string>{cutlass(), cuda, cuda + "/cccl"}));
}

TEST_F(Cutlass, is_found_beside_a_toolkit_of_cuda_12) {
  const std::string cuda =
      folder("cuda", {{"cuda_fp16.h", ""}, {"cuda.h", "#define CUDA_VERSION 12080\n"}, {"cuda/std/tuple", ""}});
  const CutlassHeaders found = find_cutlass({cutlass()}, {cuda});
  EXPECT_EQ(found.version, "CUTLASS 4.2.1 beside CUDA 12.8's headers");
  EXPECT_EQ(found.folders, (std::vector<std::string>{cutlass(), cuda}));
}

TEST_F(Cutlass, says_what_is_missing) {
  EXPECT_THAT(find_cutlass({"/nowhere"}, {"/nowhere"}).missing, HasSubstr("pip install --no-deps nvidia-cutlass"));
  // PyTorch brings CUDA's headers without its standard library.
  const std::string bare = folder("bare", {{"cuda_fp16.h", ""}});
  EXPECT_THAT(find_cutlass({cutlass()}, {bare}).missing, HasSubstr("nvidia-cuda-cccl"));
}

TEST(CutlassOption, is_told_from_others_and_names_no_folder) {
  EXPECT_TRUE(is_cutlass_option(cutlass_option()));
  EXPECT_FALSE(is_cutlass_option("--maxrregcount=128"));
  EXPECT_EQ(cutlass_option().find('/'), std::string::npos);
}

TEST(CutlassOption, is_part_of_a_cubin_s_key) {
  const Source plain{"a", "int x;", {}}, cute{"a", "int x;", {cutlass_option()}};
  EXPECT_NE(CubinStore::key(plain, "sm_90a"), CubinStore::key(cute, "sm_90a"));
}

}  // namespace
}  // namespace smelt::device::cuda
