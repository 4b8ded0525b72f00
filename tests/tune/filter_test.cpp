#include "tune/filter.h"

#include <gtest/gtest.h>

#include <array>

#include "support/errors.h"

namespace smelt::tune {
namespace {

std::string error_of(std::string_view text, std::span<const std::string_view> known = {}) {
  const std::optional<Error> e = error_from([&] { TacticFilter::parse(text, known); });
  if (!e) return "";
  EXPECT_EQ(e->code(), ExitCode::usage);
  return e->what();
}

TEST(TacticFilter, asks_only_for_what_it_names) {
  EXPECT_FALSE(TacticFilter::parse("").asks_for("cudnn"));
  EXPECT_FALSE(TacticFilter::parse("+all").asks_for("cudnn"));
  EXPECT_TRUE(TacticFilter::parse("-all,+cudnn").asks_for("cudnn"));
  EXPECT_TRUE(TacticFilter::parse("+cudnn,-all").asks_for("cudnn"));
  EXPECT_FALSE(TacticFilter::parse("+cudnn,-cudnn").asks_for("cudnn"));
}

TEST(TacticFilter, allows_everything_when_empty) { EXPECT_TRUE(TacticFilter::parse("").allows("onednn")); }

TEST(TacticFilter, refuses_what_is_marked_minus_and_keeps_the_rest) {
  const auto f = TacticFilter::parse("+onednn,-reference");
  EXPECT_TRUE(f.allows("onednn"));
  EXPECT_TRUE(f.allows("avx2"));
  EXPECT_FALSE(f.allows("reference"));
}

TEST(TacticFilter, later_items_override_earlier_ones) {
  const auto f = TacticFilter::parse("-all,+onednn");
  EXPECT_TRUE(f.allows("onednn"));
  EXPECT_FALSE(f.allows("reference"));
  EXPECT_FALSE(TacticFilter::parse("+onednn,-all").allows("onednn"));
}

TEST(TacticFilter, names_the_item_without_a_sign) {
  EXPECT_NE(error_of("+onednn,reference").find("'reference' at position 8"), std::string::npos);
}

TEST(TacticFilter, rejects_empty_names_and_trailing_commas) {
  EXPECT_NE(error_of("+"), "");
  EXPECT_NE(error_of("+onednn,"), "");
  EXPECT_NE(error_of(",+onednn"), "");
}

TEST(TacticFilter, lists_the_known_tactics_for_an_unknown_one) {
  const std::array<std::string_view, 2> known{"onednn", "reference"};
  EXPECT_NE(error_of("+onednm", known).find("onednn, reference"), std::string::npos);
  EXPECT_EQ(error_of("-all,+onednn", known), "");
}

}  // namespace
}  // namespace smelt::tune
