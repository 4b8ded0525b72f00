// The code of oneDNN's products of floats is made before a product runs.
#include "ops/cpu/onednn/gemm_code.h"

#include <fstream>
#include <optional>

#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

/// Bytes of memory that is no file's and may be executed: what has been generated.
int64_t generated() {
  std::ifstream maps("/proc/self/maps");
  int64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, offset = 0, inode = 0;
    unsigned major = 0, minor = 0;
    char rights[5] = {};
    const int read =
        std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu", &begin, &end, rights, &offset, &major, &minor, &inode);
    if (read == 7 && inode == 0 && rights[2] == 'x') bytes += static_cast<int64_t>(end - begin);
  }
  return bytes;
}

/// Such a product.
Trial product() {
  Trial t;
  t.node = make_node("MatMul", 0, {}, 0);
  t.node.outputs.clear();
  t.add(iota(DType::f32, {64, 96}), false);
  t.add(iota(DType::f32, {96, 80}), true);
  t.result(DType::f32, {64, 80});
  return t;
}

/// How oneDNN's gemm computes it; nothing where it does not.
std::optional<Candidate> by_gemm(Trial& t) {
  t.bound.node = &t.node;
  for (const Candidate& c : offer(t.bound, Machine{}).candidates)
    if (c.tactic == "onednn" && c.config.starts_with("gemm:jit")) return c;
  return std::nullopt;
}

/// Bytes of code that its first run generates.
int64_t generated_by_a_run() {
  Trial t = product();
  Prepared prepared(t, by_gemm(t).value());
  const int64_t before = generated();
  prepared.run(t.inputs);
  return generated() - before;
}

class GemmCodeDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a process that has made none yet
    Trial t = product();
    if (!by_gemm(t)) GTEST_SKIP() << "oneDNN has no such product here";
  }
};

TEST_F(GemmCodeDeathTest, is_made_by_the_first_run_where_nobody_made_it) {
  EXPECT_EXIT(std::_Exit(generated_by_a_run() > 0 ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST_F(GemmCodeDeathTest, is_not_made_again_by_a_run) {
  EXPECT_EXIT((onednn::make_gemm_code(), std::_Exit(generated_by_a_run() == 0 ? 0 : 1)), testing::ExitedWithCode(0), "");
}

TEST_F(GemmCodeDeathTest, is_waited_for_where_the_process_ends_meanwhile) {
  EXPECT_EXIT((onednn::begin_gemm_code(), std::exit(0)), testing::ExitedWithCode(0), "");
}

TEST(GemmCode, is_asked_for_by_tactics_that_run_through_it) {
  EXPECT_TRUE(onednn::names_gemm("\tgemm:f32>f32:1x2x3\tonednn gemm:jit:f32\n"));
  EXPECT_TRUE(onednn::names_gemm("\tconv:f32\tonednn x64:gemm:jit\n"));
  EXPECT_FALSE(onednn::names_gemm("\tgemm:f32>f32:1x2x3\tonednn brg:avx512_core\n"));
}

}  // namespace
}  // namespace smelt::ops::test
