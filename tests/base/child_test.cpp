// A program that is spoken to by lines.
#include "base/child.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "smelt/error.h"

namespace smelt {
namespace {

TEST(Child, answers_line_by_line) {
  Child cat({"cat"});
  cat.say("one");
  cat.say("two");
  EXPECT_EQ(cat.line(10), "one");
  EXPECT_EQ(cat.line(10), "two");
}

TEST(Child, may_say_lines_that_no_pipe_holds) {
  Child longer({"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo; echo end"});
  EXPECT_EQ(longer.line(10), std::string(300000, 'x'));
  EXPECT_EQ(longer.line(10), "end");
}

TEST(Child, that_cannot_be_started_is_an_error) { EXPECT_THROW(Child({"/no/such/program"}), Error); }

TEST(Child, that_ends_is_an_error_of_whoever_waits_for_it) {
  Child gone({"sh", "-c", "echo last; exit 3"});
  EXPECT_EQ(gone.line(10), "last");
  EXPECT_THROW(gone.line(10), Error);
}

TEST(Child, that_says_nothing_is_not_waited_for_longer_than_asked) {
  Child silent({"sleep", "100"});
  EXPECT_THROW(silent.line(0.2), Error);
}

}  // namespace
}  // namespace smelt
