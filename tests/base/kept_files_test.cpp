#include "base/kept_files.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Kept : public testing::Test {
 protected:
  Kept() : dir_(fs::path(testing::TempDir()) / ("smelt_kept_" + std::to_string(::getpid()))) {}
  ~Kept() override { fs::remove_all(dir_); }
  KeptFiles files() const { return {dir_, "smelt-test 1", ".test", "results"}; }
  fs::path only_file() const {
    for (const auto& entry : fs::recursive_directory_iterator(dir_))
      if (entry.is_regular_file()) return entry.path();
    return {};
  }
  fs::path dir_;
  std::string key_ = KeyHash().add("a problem").text();
};

TEST_F(Kept, gives_what_another_object_of_the_folder_wrote) {
  const std::string body("two\nlines\0and a zero", 20);
  EXPECT_EQ(files().read(key_), std::nullopt);
  files().write(key_, body);
  EXPECT_EQ(files().read(key_), body);
  EXPECT_EQ(files().read(KeyHash().add("another").text()), std::nullopt);
  EXPECT_EQ(only_file().extension(), ".test");
  files().write(key_, "");
  EXPECT_EQ(files().read(key_), "");
}

TEST_F(Kept, takes_no_file_that_lacks_or_differs_in_a_byte) {
  files().write(key_, "body");
  const std::string whole = read_text(only_file());
  testing::internal::CaptureStderr();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const bool cut : {false, true}) {
      std::string damaged = cut ? whole.substr(0, i) : whole;
      if (!cut) damaged[i] = static_cast<char>(damaged[i] ^ 1);
      write_text(only_file(), damaged);
      EXPECT_EQ(files().read(key_), std::nullopt) << (cut ? "cut at " : "other byte at ") << i;
    }
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is damaged"));
  files().write(key_, "body");
  EXPECT_EQ(files().read(key_), "body");
}

TEST_F(Kept, takes_no_file_of_another_kind_or_key) {
  const std::string file = sealed("kind", "key", "body");
  EXPECT_EQ(unsealed("kind", "key", file), "body");
  EXPECT_EQ(unsealed("kind 2", "key", file), std::nullopt);
  EXPECT_EQ(unsealed("kind", "other", file), std::nullopt);
  EXPECT_EQ(unsealed("kind", "key", ""), std::nullopt);
}

TEST_F(Kept, without_a_folder_keeps_nothing) {
  const KeptFiles none({}, "smelt-test 1", ".test", "results");
  none.write(key_, "body");
  EXPECT_FALSE(none.any());
  EXPECT_EQ(none.read(key_), std::nullopt);
}

TEST_F(Kept, says_once_that_a_folder_cannot_be_written) {
  write_text(dir_, "a file in its place");
  const KeptFiles kept = files();
  testing::internal::CaptureStderr();
  kept.write(key_, "body");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("results are not kept"));
  testing::internal::CaptureStderr();
  kept.write(key_, "body");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(KeyHash, tells_texts_apart_that_only_their_ends_divide) {
  EXPECT_EQ(KeyHash().add("a").add("bc").text(), KeyHash().add("a").add("bc").text());
  EXPECT_NE(KeyHash().add("a").add("bc").text(), KeyHash().add("ab").add("c").text());
  EXPECT_NE(KeyHash().add("a").text(), KeyHash().add("a").add("").text());
  EXPECT_EQ(KeyHash().add("a").text().size(), 32u);
}

}  // namespace
}  // namespace smelt
