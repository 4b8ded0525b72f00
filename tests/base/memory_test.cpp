#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

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

}  // namespace
}  // namespace smelt
