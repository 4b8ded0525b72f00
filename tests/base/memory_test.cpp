#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "smelt/tensor.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;
constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();

/// A made-up /sys/fs/cgroup.
class GroupMemory : public testing::Test {
 protected:
  fs::path root = fs::path(testing::TempDir()) / "smelt-group-memory";
  void SetUp() override { fs::remove_all(root); }
  void TearDown() override { fs::remove_all(root); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
};

TEST_F(GroupMemory, is_the_limit_less_what_the_group_holds) {
  write("app/memory.max", "1000\n");
  write("app/memory.current", "700\n");
  EXPECT_EQ(group_memory("0::/app\n", root), 300);
}

TEST_F(GroupMemory, pages_of_files_that_are_not_in_use_give_way) {
  write("memory.max", "1000\n");
  write("memory.current", "900\n");
  write("memory.stat", "anon 100\nfile 800\ninactive_file 500\n");
  EXPECT_EQ(group_memory("0::/\n", root), 600);
}

TEST_F(GroupMemory, is_the_least_of_a_group_and_those_that_hold_it) {
  write("a/memory.max", "1000\n");
  write("a/memory.current", "900\n");
  write("a/b/memory.max", "max\n");
  write("a/b/memory.current", "10\n");
  EXPECT_EQ(group_memory("0::/a/b\n", root), 100);
  write("a/b/memory.max", "50\n");
  EXPECT_EQ(group_memory("0::/a/b\n", root), 40);
  write("a/b/memory.current", "80\n");
  EXPECT_EQ(group_memory("0::/a/b\n", root), 0) << "a limit that was lowered";
}

TEST_F(GroupMemory, of_version_1_is_read_too) {
  write("memory/docker/x/memory.limit_in_bytes", "2000\n");
  write("memory/docker/x/memory.usage_in_bytes", "500\n");
  write("memory/docker/x/memory.stat", "total_inactive_file 100\n");
  EXPECT_EQ(group_memory("5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n", root), 1600);
  EXPECT_EQ(group_memory("5:cpu,cpuacct:/docker/x\n", root), no_limit);
}

TEST_F(GroupMemory, without_a_limit_there_is_none) { EXPECT_EQ(group_memory("0::/nowhere\n\nnonsense", root), no_limit); }

TEST(Memory, tensors_beyond_what_there_is_are_refused_one_by_one_and_together) {
  EXPECT_NO_THROW(check_available(1, DType::u8, Shape{1}));
  EXPECT_ANY_THROW(check_available(int64_t{1} << 60, DType::u8, Shape{int64_t{1} << 60}));
}

TEST(Memory, what_tensors_were_promised_and_have_not_written_is_not_left) {
  constexpr int64_t gib = int64_t{1} << 30;
  EXPECT_EQ(left_for_tensors(16 * gib, 0, 0), 15 * gib) << "a sixteenth is for what is no tensor";
  EXPECT_EQ(left_for_tensors(64 * gib, 0, 0), 63 * gib) << "at most a gibibyte";
  EXPECT_EQ(left_for_tensors(16 * gib, 5 * gib, 2 * gib), 12 * gib) << "of 5, 3 are not written";
  EXPECT_EQ(left_for_tensors(16 * gib, 5 * gib, 7 * gib), 15 * gib) << "the process has written more than its tensors";
  EXPECT_EQ(left_for_tensors(gib, 5 * gib, 0), 0);
  EXPECT_EQ(left_for_tensors(no_limit, 5 * gib, 0), no_limit);
}

/// The message of the Error that this gives.
std::string refused(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Memory, tensors_of_a_scope_are_taken_from_its_account_until_the_last_of_them_goes) {
  const auto account = std::make_shared<MemoryAccount>(10'000);
  Tensor kept;
  {
    const MemoryScope scope(account);
    kept = Tensor::zeros(DType::f32, {2000});
    EXPECT_EQ(account->held(), 8000);
    const Tensor view = kept.reshaped({20, 100});
    EXPECT_EQ(account->held(), 8000) << "a view has no memory of its own";
    const std::string why = refused([] { Tensor::empty(DType::f32, {1000}); });
    EXPECT_EQ(why, "a tensor f32[1000] needs 4000 bytes: 2000 of the limit of 10000 are left");
    EXPECT_EQ(account->held(), 8000) << "what is refused is not held";
    EXPECT_NE(refused([] { check_available(4000, DType::f32, {1000}); }), "");
    EXPECT_EQ(memory_left(), 2000);
    {
      const MemoryScope inner(std::make_shared<MemoryAccount>(100));
      EXPECT_NE(refused([] { Tensor::empty(DType::u8, {200}); }), "");
    }
    EXPECT_EQ(refused([] { Tensor::empty(DType::u8, {200}); }), "");
  }
  EXPECT_EQ(refused([] { Tensor::empty(DType::f32, {1000}); }), "") << "no limit outside of the scope";
  EXPECT_EQ(account->held(), 8000);
  std::thread([&] { kept = Tensor(); }).join();
  EXPECT_EQ(account->held(), 0);
}

TEST(Memory, tensors_of_every_size_are_aligned_and_their_own) {
  const auto account = std::make_shared<MemoryAccount>(100'000'000);
  const MemoryScope scope(account);
  std::vector<Tensor> all;
  for (int64_t turn = 0; turn < 3; ++turn)  // the second and the third take what the ones before let go
    for (int64_t size = 0; size < 1500; size += 1 + size / 40) {
      Tensor t = Tensor::empty(DType::u8, {size});
      EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0u) << size;
      std::memset(t.raw(), static_cast<int>(all.size() % 251), static_cast<size_t>(size));
      if (turn == 1 && size % 3 == 0)
        std::thread([&] { t = Tensor(); }).join();
      else
        all.push_back(std::move(t));
    }
  for (size_t i = 0; i < all.size(); ++i)
    for (int64_t k = 0; k < all[i].size(); ++k) ASSERT_EQ(all[i].data<uint8_t>()[k], i % 251) << i;
  all.clear();
  EXPECT_EQ(account->held(), 0);
}

TEST(Memory, strings_are_taken_from_the_account_with_their_characters) {
  const auto account = std::make_shared<MemoryAccount>(100'000);
  const MemoryScope scope(account);
  Tensor kept = Tensor::of_strings({2}, {"short", std::string(50'000, 'x')});
  EXPECT_GE(account->held(), 50'000);
  EXPECT_LE(account->held(), 51'000);
  const std::string why = refused([] { Tensor::of_strings({1}, {std::string(50'000, 'y')}); });
  EXPECT_NE(why.find("a tensor string[1] needs 500"), std::string::npos) << why;
  kept = Tensor();
  EXPECT_EQ(account->held(), 0);
}

TEST(Memory, sums_of_bytes_do_not_wrap) {
  const MemoryScope scope(std::make_shared<MemoryAccount>());
  for (int i = 0; i < 4; ++i) EXPECT_NE(refused([] { Tensor::empty(DType::u8, {no_limit - 100}); }), "");
  EXPECT_EQ(memory_account()->held(), 0);
}

}  // namespace
}  // namespace smelt
