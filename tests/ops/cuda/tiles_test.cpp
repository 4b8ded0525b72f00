// Every tile that a product may be offered compiles, however its operands lie and however wide their copies are: without a GPU, all of
// an architecture's in one program, which instantiates the tiles and launches none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "ops/matmul/cuda_configs.h"

namespace smelt::ops::matmul {
namespace {

constexpr int64_t anywhere = 0;  // copies of 16 bytes at any address

/// A product of two operands, stored transposed or not, whose copies take so many bytes.
CudaProblem product(DType type, bool a_along_k, bool b_along_k, int64_t copy_bytes) {
  CudaProblem p;
  p.type = p.type_b = type;
  p.m = p.n = 4096, p.k = 4096;
  const int64_t vec = copy_bytes == anywhere ? 16 : std::max<int64_t>(1, copy_bytes / bytes(type, 1));
  p.a = {.outer = a_along_k ? p.k : 1, .k = a_along_k ? 1 : p.m, .alignment = 16, .k_major = a_along_k, .vec = vec};
  p.b = {.outer = b_along_k ? p.k : 1, .k = b_along_k ? 1 : p.n, .alignment = 16, .k_major = b_along_k, .vec = vec};
  p.a.anywhere = p.b.anywhere = copy_bytes == anywhere;
  return p;
}

/// The C++ types of all the tiles.
std::set<std::string> tiles(const Gpu& gpu) {
  std::set<std::string> found;
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::i8, DType::u8})
    for (const int along_k : {0, 1, 2, 3})
      for (const int64_t copy : {int64_t{16}, int64_t{8}, int64_t{4}, int64_t{2}, anywhere}) {
        if (copy == anywhere && bytes(type, 1) != 1) continue;
        for (uint32_t zeros = 0; zeros <= (bytes(type, 1) == 1 && copy == 16 ? 3U : 0U); ++zeros) {
          CudaProblem p = product(type, along_k & 1, along_k & 2, copy);
          p.zeros = zeros;
          const auto configs = product_configs(p, gpu);
          if (!configs) continue;
          for (const CudaConfig& c : *configs) found.insert(tile_type(p, c));
        }
      }
  return found;
}

class EveryTile : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EveryTile, of_products_compiles) {
  auto gpu = std::make_shared<Gpu>(*gpu_of_arch(GetParam()));
  std::set<std::string> all = tiles(*gpu);
  gpu->tf32 = true;
  all.merge(tiles(*gpu));
  std::string code = "#include \"gemm/gemm.cuh\"\n#include \"gemm/fed.cuh\"\n";
  for (const std::string& tile : all) {
    code += fmt::format("template struct {};\n", tile);
    if (!tile.starts_with("FedTile")) code += fmt::format("static_assert({0}::CopyA::all_copy && {0}::CopyB::all_copy);\n", tile);
  }
  EXPECT_GE(all.size(), 100U);
  EXPECT_NO_THROW(device::cuda::compile({"tiles", code, {}}, GetParam())) << code;
}
INSTANTIATE_TEST_SUITE_P(Architectures, EveryTile, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::ops::matmul
