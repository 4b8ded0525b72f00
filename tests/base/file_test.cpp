#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "smelt/error.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() : dir_(fs::path(testing::TempDir()) / ("smelt_file_" + std::to_string(::getpid()))) { fs::create_directories(dir_); }
  ~File() override { fs::remove_all(dir_); }
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(dir_), fs::directory_iterator())); }
  /// A process that prepares, has written half of `out` and waits for its end.
  template <class F> pid_t start_writer(F prepare) const {
    int ready[2];
    if (::pipe(ready) != 0) return -1;
    const pid_t child = ::fork();
    if (child == 0) {
      prepare();
      AtomicFile f(dir_ / "out");
      f.write("half");
      if (::write(ready[1], "r", 1) != 1) ::_exit(99);
      for (;;) ::pause();
    }
    char c;
    EXPECT_EQ(::read(ready[0], &c, 1), 1);
    return child;
  }
  fs::path dir_;
};

TEST_F(File, appears_only_on_commit) {
  AtomicFile f(dir_ / "out");
  f.write("hello");
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  f.commit();
  EXPECT_EQ(read_text(dir_ / "out"), "hello");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(File, leaves_nothing_and_the_old_one_untouched_without_commit) {
  write_text(dir_ / "out", "old");
  {
    AtomicFile f(dir_ / "out");
    f.write("new");
  }
  EXPECT_EQ(read_text(dir_ / "out"), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(File, two_appear_together_or_not_at_all) {
  write_text(dir_ / "data", "old");
  {
    AtomicFile data(dir_ / "data"), plan(dir_ / "plan");
    data.write("new");
    fs::create_directory(dir_ / "plan");  // in the way of the second
    fs::create_directory(dir_ / "plan" / "x");
    plan.write("new");
    EXPECT_THROW(AtomicFile::commit_together({&plan, &data}), Error);
  }
  EXPECT_EQ(read_text(dir_ / "data"), "old");
  EXPECT_EQ(entries(), 2u);
  fs::remove_all(dir_ / "plan");
  AtomicFile data(dir_ / "data"), plan(dir_ / "plan");
  data.write("new");
  plan.write("new plan");
  AtomicFile::commit_together({&data, &plan});
  EXPECT_EQ(read_text(dir_ / "data") + ", " + read_text(dir_ / "plan"), "new, new plan");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(File, full_disk_names_the_path) {
  AtomicFile f("/dev/full");
  try {
    f.write("x");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("/dev/full"));
    EXPECT_THAT(e.what(), testing::HasSubstr("No space left"));
  }
}

TEST_F(File, refuses_a_missing_folder_and_a_folder) {
  EXPECT_THROW(AtomicFile(dir_ / "missing" / "out"), Error);
  EXPECT_THROW(AtomicFile{dir_}, Error);
  EXPECT_THROW(MappedFile::open(dir_), Error);
  EXPECT_THROW(MappedFile::open(dir_ / "missing"), Error);
}

TEST_F(File, a_pipe_is_refused_at_once) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(MappedFile::open(dir_ / "pipe"), Error);  // and does not wait for a writer
}

TEST_F(File, maps_an_empty_file) {
  write_text(dir_ / "empty", "");
  EXPECT_EQ(MappedFile::open(dir_ / "empty")->size(), 0);
  EXPECT_EQ(read_text(dir_ / "empty"), "");
}

TEST_F(File, is_removed_when_the_process_is_interrupted) {
  const pid_t child = start_writer(clean_up_on_signals);
  ASSERT_GT(child, 0);
  EXPECT_EQ(entries(), 1u);
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(entries(), 0u);
}

/// The system gives a signal to any thread that has not put it off.
TEST_F(File, two_are_of_one_time_when_a_signal_comes_to_another_thread) {
  const fs::path plan = dir_ / "plan", data = dir_ / "data";
  for (int times = 0; times < 100; ++times) {
    const pid_t child = fork();
    if (child == 0) {
      clean_up_on_signals();
      std::thread([] {
        while (true) ::pause();
      }).detach();
      for (int i = 0;; ++i) {
        AtomicFile first(data), second(plan);
        first.write(std::to_string(i));
        second.write(std::to_string(i));
        AtomicFile::commit_together({&first, &second});
      }
    }
    while (!fs::exists(plan)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + 97 * times));
    ::kill(child, SIGINT);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 128 + SIGINT);
    ASSERT_EQ(read_text(plan), read_text(data)) << "end " << times;
    ASSERT_EQ(entries(), 2u);
    fs::remove(plan);
  }
}

TEST_F(File, cache_folder_follows_the_variable) {
  ::setenv("SMELT_CACHE_DIR", (dir_ / "cache").c_str(), 1);
  EXPECT_EQ(cache_dir(), dir_ / "cache");
  EXPECT_TRUE(fs::is_directory(dir_ / "cache"));
  write_text(dir_ / "file", "");
  ::setenv("SMELT_CACHE_DIR", (dir_ / "file" / "cache").c_str(), 1);
  EXPECT_THROW(cache_dir(), Error);
  ::unsetenv("SMELT_CACHE_DIR");
}

TEST_F(File, two_writers_of_one_path_do_not_meet_and_the_last_one_stays) {
  AtomicFile a(dir_ / "out"), b(dir_ / "out");
  a.write("a");
  b.write("b");
  EXPECT_EQ(entries(), 2u);
  b.commit();
  a.commit();
  EXPECT_EQ(read_text(dir_ / "out"), "a");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(File, what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not) {
  const pid_t child = start_writer([] {});
  ASSERT_GT(child, 0);
  ASSERT_EQ(entries(), 1u);
  const fs::path half = fs::directory_iterator(dir_)->path();
  fs::last_write_time(half, fs::file_time_type::clock::now() - std::chrono::minutes(5));
  write_text(dir_ / "out", "whole");
  EXPECT_TRUE(fs::exists(half)) << "its writer lives";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  write_text(dir_ / "other", "");
  EXPECT_TRUE(fs::exists(half)) << "it is of another path";
  write_text(dir_ / "out", "whole");
  EXPECT_FALSE(fs::exists(half));
  EXPECT_EQ(entries(), 2u);
}

TEST_F(File, a_mapped_file_tells_that_it_was_written_to) {
  write_text(dir_ / "data", "weights");
  const auto mapped = MappedFile::open(dir_ / "data");
  mapped->check_unchanged();
  write_text(dir_ / "data", "others!");  // another file under the name
  mapped->check_unchanged();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped->data()), 7), "weights");
  const auto second = MappedFile::open(dir_ / "data");
  fs::resize_file(dir_ / "data", 3);
  EXPECT_THROW(second->check_unchanged(), Error);
}

TEST_F(File, is_mapped_once_however_often_it_is_opened_and_anew_once_it_was_written_to) {
  write_text(dir_ / "data", "weights");
  fs::create_hard_link(dir_ / "data", dir_ / "link");
  auto first = MappedFile::open(dir_ / "data");
  EXPECT_EQ(MappedFile::open(dir_ / "data"), first);
  EXPECT_EQ(MappedFile::open(dir_ / "link"), first);
  EXPECT_EQ(MappedFile::holding(first->data()), first);
  write_text(dir_ / "data", "others!");  // by a rename: another file of the same size
  const auto second = MappedFile::open(dir_ / "data");
  EXPECT_NE(second, first);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(second->data()), 7), "others!");
  second->check_unchanged();
  fs::last_write_time(dir_ / "data",
                      fs::file_time_type::clock::now() + std::chrono::seconds(1));  // as a write in place leaves it
  EXPECT_THROW(second->check_unchanged(), Error);
  EXPECT_NE(MappedFile::open(dir_ / "data"), second);
  EXPECT_EQ(MappedFile::open(dir_ / "link"), first);
  first.reset();
  EXPECT_EQ(MappedFile::open(dir_ / "link")->size(), 7);
}

TEST_F(File, a_mapped_file_that_is_cut_short_ends_the_command_with_a_message) {
  write_text(dir_ / "data", std::string(8192, 'x'));
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(said[1], STDERR_FILENO);
    clean_up_on_signals();
    const auto mapped = MappedFile::open(dir_ / "data");
    fs::resize_file(dir_ / "data", 0);
    const volatile uint8_t* at = mapped->data() + 5000;
    ::_exit(*at);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGBUS);
  char text[4096] = {};
  ASSERT_GT(::read(said[0], text, sizeof text - 1), 0);
  EXPECT_THAT(text, testing::HasSubstr("became shorter"));
}

TEST(Hash, is_fnv_1a) {
  EXPECT_EQ(hash_bytes("", 0), 0xcbf29ce484222325ull);
  EXPECT_EQ(hash_bytes("a", 1), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(hash_bytes("foobar", 6), 0x85944171f73967e8ull);
}

TEST(Errors, carry_the_place_the_next_step_and_the_exit_code) {
  const Error e = Error("expected 3, found 4", "Run it again.", ExitCode::usage).at("model.onnx");
  EXPECT_STREQ(e.what(), "model.onnx: expected 3, found 4");
  EXPECT_EQ(e.next(), "Run it again.");
  EXPECT_EQ(e.code(), ExitCode::usage);
}

}  // namespace
}  // namespace smelt
