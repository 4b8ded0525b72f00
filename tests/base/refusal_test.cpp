#include "base/refusal.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

namespace smelt {
namespace {

Result<std::vector<int>> numbers(int count) {
  constexpr int most = 2;
  if (count > most) return refuse(Reason::too_large, "{} numbers, at most {}", count, most);
  return std::vector<int>(static_cast<size_t>(count), 7);
}

std::optional<Refusal> rejects(int count) {
  const auto n = numbers(count);
  if (!n) return n.refusal().at("list");
  return std::nullopt;
}

TEST(Refusal, has_a_code_and_the_numbers) {
  const auto no = numbers(3);
  ASSERT_FALSE(no);
  EXPECT_EQ(no.refusal().reason, Reason::too_large);
  EXPECT_EQ(name(no.refusal().reason), "too_large");
  EXPECT_EQ(no.refusal().text, "3 numbers, at most 2");
  EXPECT_EQ(no.refusal().blocker, NodeId{-1});
}

TEST(Refusal, says_where_in_front) {
  EXPECT_EQ(rejects(3)->text, "list: 3 numbers, at most 2");
  EXPECT_FALSE(rejects(2));
}

TEST(Refusal, names_the_node_in_the_way) {
  EXPECT_EQ(refuse(Reason::extra_reader, NodeId{4}, "{} readers", 2).at("x").blocker, NodeId{4});
}

TEST(Result, holds_the_value_or_gives_it_away) {
  auto two = numbers(2);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->size(), 2u);
  two->push_back(1);
  EXPECT_EQ((*std::move(two)).size(), 3u);
  const Result<std::shared_ptr<const int>> shared = std::make_shared<int>(5);
  EXPECT_EQ(**shared, 5);
}

}  // namespace
}  // namespace smelt
