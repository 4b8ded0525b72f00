// The fuzzer's corpus, and one file a bug that it found (tests/repro), through every stage up to the plan: no sanitizers here,
// but in every build.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "fuzz/stages.h"
#include "support/paths.h"

namespace smelt {
namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

int accepted(const std::filesystem::path& folder) {
  int count = 0;
  for (const auto& path : files_of(folder)) {
    SCOPED_TRACE(path.string());
    const auto file = MappedFile::open(path);
    EXPECT_NO_THROW(count += fuzz::optimize_any({file->data(), static_cast<size_t>(file->size())}));
  }
  return count;
}

TEST(FuzzCorpus, is_refused_or_optimized_and_read_back) {
  // The build unpacks tests/fuzz/corpus.tar.xz there.
  EXPECT_GT(accepted(build_dir() / "fuzz_corpus"), 20);  // most inputs of a corpus are on the way to a model; these are models
}

TEST(FuzzCorpus, bugs_stay_fixed) { accepted(source_dir() / "tests" / "repro"); }

}  // namespace
}  // namespace smelt
