#include "tune/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"
#include "smelt/error.h"

namespace smelt::tune {
namespace {

CacheEntry entry(const std::string& problem, double us, int level = 2) {
  return {{problem, "cpu, avx2, 2 threads", "smelt 0"},
          level,
          {{"onednn", "x", us, us, us, us, us, 5}, {"reference", "", 9 * us, 9 * us, 9 * us, 9 * us, 9 * us, 5}}};
}

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() /
           ("smelt_cache_" + std::to_string(getpid()) + "_" + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(dir_);
    path_ = cache_path(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_, path_;
};

TEST_F(CacheTest, gives_back_what_it_kept_after_reopening) {
  Cache::open(path_)->keep(entry("gemm:1", 10));
  const auto found = Cache::open(path_)->find(entry("gemm:1", 0).key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->timings, entry("gemm:1", 10).timings);
  EXPECT_EQ(found->level, 2);
}

TEST_F(CacheTest, lists_the_problems_of_a_device_and_versions) {
  const auto cache = Cache::open(path_);
  cache->keep(entry("gemm:1", 10));
  cache->keep(entry("gemm:2", 10));
  CacheEntry other = entry("gemm:3", 10);
  other.key.versions = "smelt 1";
  cache->keep(other);
  const CacheKey key = entry("", 0).key;
  EXPECT_EQ(cache->problems(key.device, key.versions), (std::unordered_set<std::string>{"gemm:1", "gemm:2"}));
  EXPECT_TRUE(cache->problems("another", key.versions).empty());
}

TEST_F(CacheTest, does_not_find_another_problem_device_or_version) {
  auto cache = Cache::open(path_);
  cache->keep(entry("gemm:1", 10));
  CacheKey key = entry("gemm:1", 0).key;
  key.versions = "smelt 1";
  EXPECT_FALSE(cache->find(key));
  key = entry("gemm:1", 0).key;
  key.device = "cpu, avx2, 4 threads";
  EXPECT_FALSE(cache->find(key));
  EXPECT_FALSE(cache->find(entry("gemm:2", 0).key));
}

TEST_F(CacheTest, first_writer_wins_at_the_same_level_and_a_higher_level_replaces) {
  auto cache = Cache::open(path_);
  cache->keep(entry("p", 10));
  EXPECT_EQ(cache->keep(entry("p", 20)).timings[0].median, 10);
  EXPECT_EQ(cache->keep(entry("p", 30, 3)).timings[0].median, 30);
  EXPECT_EQ(cache->keep(entry("p", 40, 1)).timings[0].median, 30);
}

TEST_F(CacheTest, keeps_text_with_quotes_and_bytes_of_other_alphabets) {
  auto cache = Cache::open(path_);
  cache->keep(entry("it's \"µ\"; DROP TABLE timings", 1));
  EXPECT_EQ(cache->list().size(), 1u);
  EXPECT_EQ(cache->list()[0].key.problem, "it's \"µ\"; DROP TABLE timings");
}

TEST_F(CacheTest, exports_and_imports_as_json) {
  auto cache = Cache::open(path_);
  cache->keep(entry("a", 1));
  cache->keep(entry("b", 2));
  auto other = Cache::in_memory();
  EXPECT_EQ(other->import_json(cache->export_json()), 2);
  EXPECT_EQ(other->export_json(), cache->export_json());
  EXPECT_EQ(other->import_json(cache->export_json()), 0) << "nothing new the second time";
}

TEST_F(CacheTest, says_what_is_wrong_with_a_text_that_is_no_export) {
  auto cache = Cache::in_memory();
  EXPECT_THROW(cache->import_json("{"), Error);
  EXPECT_THROW(cache->import_json(R"({"version": 99, "entries": []})"), Error);
  EXPECT_THROW(cache->import_json(R"({"version": 1, "entries": [{"problem": 3}]})"), Error);
  EXPECT_TRUE(cache->list().empty());
}

TEST_F(CacheTest, says_in_its_own_words_which_entry_is_no_measurement) {
  auto good = Cache::in_memory();
  good->keep(entry("a", 1));
  const std::string text = good->export_json();
  const auto with = [&](const std::string& key, const std::string& value) {
    const size_t at = text.find("\"" + key + "\": ") + key.size() + 4;
    return std::string(text).replace(at, text.find_first_of(",\n}", at) - at, value);
  };
  auto cache = Cache::in_memory();
  for (const std::string& damaged :
       {std::string("{"), std::string("[]"), std::string("{\"version\": 1}"), with("level", "1e300"), with("level", "\"2\""),
        with("samples", "-1"), with("samples", "99999999999999999999"), with("min_us", "-5"), with("median_us", "null"),
        with("under_load", "1.5"), with("tactic", "{}"), with("problem", "7"),
        std::string("{\"version\": 1, \"entries\": [[]]}")}) {
    if (damaged == text) continue;  // an entry without that key
    try {
      cache->import_json(damaged);
      ADD_FAILURE() << "taken: " << damaged;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("not an exported tuning cache"));
      EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr("json.exception")));
    }
  }
  EXPECT_TRUE(cache->list().empty());
  EXPECT_EQ(cache->import_json(text), 1) << "the good one";
}

TEST_F(CacheTest, exports_names_that_are_no_text) {
  auto cache = Cache::open(path_);
  cache->keep(entry("\xff\xfe", 1));
  auto other = Cache::in_memory();
  EXPECT_EQ(other->import_json(cache->export_json()), 1);
}

TEST_F(CacheTest, merges_entries_that_are_missing_or_of_a_lower_level) {
  auto a = Cache::open(path_);
  auto b = Cache::in_memory();
  a->keep(entry("same", 1));
  a->keep(entry("better", 1, 1));
  b->keep(entry("same", 2));
  b->keep(entry("better", 2, 3));
  b->keep(entry("new", 2));
  EXPECT_EQ(a->merge(*b), 2);
  EXPECT_EQ(a->find(entry("same", 0).key)->timings[0].median, 1);
  EXPECT_EQ(a->find(entry("better", 0).key)->timings[0].median, 2);
}

CacheEntry under_load(CacheEntry e, int times = 1) {
  for (Timing& t : e.timings) t.under_load = times;
  return e;
}

TEST_F(CacheTest, timings_under_load_make_room_for_others) {
  auto cache = Cache::open(path_);
  cache->keep(under_load(entry("p", 10)));
  EXPECT_TRUE(Cache::open(path_)->find(entry("p", 0).key)->under_load());
  EXPECT_EQ(cache->keep(entry("p", 20)).timings, entry("p", 20).timings) << "also for slower ones: those are right";
  EXPECT_EQ(cache->keep(under_load(entry("p", 5))).timings, entry("p", 20).timings);
}

TEST_F(CacheTest, two_measurements_under_load_keep_the_faster) {
  auto cache = Cache::open(path_);
  cache->keep(under_load(entry("p", 20)));
  const CacheEntry faster = cache->keep(under_load(entry("p", 10)));
  EXPECT_EQ(faster.timings[0].min, 10);
  EXPECT_EQ(faster.timings[0].under_load, 2);
  EXPECT_EQ(cache->keep(under_load(entry("p", 30))).timings[0].min, 10);
  EXPECT_EQ(cache->find(entry("p", 0).key)->timings[0].under_load, 3);
}

TEST_F(CacheTest, merges_quiet_timings_over_those_under_load) {
  auto a = Cache::open(path_);
  auto b = Cache::in_memory();
  a->keep(under_load(entry("p", 1)));
  a->keep(under_load(entry("q", 1)));
  a->keep(entry("r", 1));
  b->import_json([&] {
    auto c = Cache::in_memory();
    c->keep(entry("p", 2));
    c->keep(under_load(entry("q", 2)));
    c->keep(under_load(entry("r", 2)));
    return c->export_json();
  }());
  EXPECT_EQ(a->merge(*b), 1);
  EXPECT_EQ(a->find(entry("p", 0).key)->timings[0].min, 2);
  EXPECT_EQ(a->find(entry("q", 0).key)->timings[0].min, 1);
  EXPECT_EQ(a->find(entry("r", 0).key)->timings[0].min, 1);
}

TEST_F(CacheTest, clears) {
  auto cache = Cache::open(path_);
  cache->keep(entry("a", 1));
  EXPECT_EQ(cache->clear(), 1);
  EXPECT_TRUE(Cache::open(path_)->list().empty());
}

TEST_F(CacheTest, survives_a_file_that_is_no_database) {
  std::ofstream(path_) << "this is not a database, it is a text that is long enough to be looked at as one";
  testing::internal::CaptureStderr();
  auto cache = Cache::open(path_);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(path_.string()), std::string::npos);
  cache->keep(entry("a", 1));
  EXPECT_TRUE(cache->find(entry("a", 0).key)) << "within the process";
  EXPECT_THROW(Cache::open_or_throw(path_), Error);
}

TEST_F(CacheTest, survives_a_truncated_database) {
  {
    auto cache = Cache::open(path_);
    for (int i = 0; i < 2000; ++i) cache->keep(entry("problem " + std::to_string(i), i));
  }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  testing::internal::CaptureStderr();
  auto cache = Cache::open(path_);
  for (int i = 0; i < 2000; i += 100) cache->find(entry("problem " + std::to_string(i), 0).key);
  cache->keep(entry("a", 1));
  EXPECT_TRUE(cache->find(entry("a", 0).key));
  testing::internal::GetCapturedStderr();
}

TEST_F(CacheTest, survives_a_row_that_is_damaged) {
  {
    auto cache = Cache::open(path_);
    cache->keep(entry("a", 1));
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "UPDATE timings SET timings='[{\"tactic\":'", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  auto cache = Cache::open(path_);
  EXPECT_FALSE(cache->find(entry("a", 0).key));
  EXPECT_EQ(cache->keep(entry("a", 7)).timings[0].median, 7) << "and it is measured and kept again";
}

TEST_F(CacheTest, survives_a_place_that_cannot_be_written) {
  auto cache = Cache::open("/proc/smelt/tuning.db");
  testing::internal::CaptureStderr();
  EXPECT_EQ(cache->keep(entry("a", 1)).timings[0].median, 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("/proc/smelt"), std::string::npos);
  EXPECT_TRUE(cache->find(entry("a", 0).key)) << "within the process";
}

TEST_F(CacheTest, makes_no_file_until_there_is_something_to_keep) {
  const std::filesystem::path path = cache_path(dir_ / "folder");
  auto cache = Cache::open(path), other = Cache::open(path);
  EXPECT_FALSE(cache->find(entry("a", 0).key));
  EXPECT_TRUE(cache->list().empty() && cache->problems("", "").empty());
  EXPECT_EQ(cache->clear(), 0);
  EXPECT_FALSE(std::filesystem::exists(path.parent_path()));
  cache->keep(entry("a", 1));
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(other->find(entry("a", 0).key)) << "it sees what has come to be";
}

TEST_F(CacheTest, processes_that_measure_the_same_problem_agree_on_one_answer) {
  constexpr int processes = 4, problems = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      auto cache = Cache::open(path_);
      std::ofstream out(dir_ / ("answers" + std::to_string(p)));
      for (int i = 0; i < problems; ++i)
        out << cache->keep(entry("problem " + std::to_string(i), p + 1)).timings[0].median << '\n';
      out.close();
      _exit(cache->path().empty() ? 1 : 0);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << "the database was given up";
  }
  for (int p = 1; p < processes; ++p) EXPECT_EQ(read_text(dir_ / "answers0"), read_text(dir_ / ("answers" + std::to_string(p))));
}

}  // namespace
}  // namespace smelt::tune
