// What NonMaxSuppression launches on a GPU: which of its forms are offered, which is expected to be faster, how many launches and
// blocks they have and the memory that they take. Kernels are compiled, nothing runs.
#include <gmock/gmock.h>

#include "base/error.h"
#include "device/cuda/compiler.h"
#include "ops/cuda/forms.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda/planned.h"

namespace smelt::ops {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct Lines {
  int64_t lines, count, keep;
  bool computed = false;  // the limit, by the run
};

/// A line is a class of one item.
Form form(const Lines& l) {
  Form f("NonMaxSuppression", "");
  f.in(DType::f32, {1, l.count, 4}).in(DType::f32, {1, l.lines, l.count});
  if (l.computed)
    f.in(DType::i64, {1});
  else
    f.in(Tensor::of<int64_t>({1}, {l.keep}));
  return std::move(f.in(DType::f32, {1}).in(DType::f32, {1}).out(DType::i64, {l.lines * l.keep, 3}).count());
}

/// The offer and the machine that it is for.
struct Offered {
  Form f;
  Machine machine;
  Offer o;
  explicit Offered(const Lines& l, std::string_view arch = "sm_90a") : f(form(l)) {
    machine.gpu = gpu_of_arch(arch);
    f.bound.node = &f.node;
    o = offer(f.bound, machine);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Candidate& c : o.candidates) all.push_back(c.config);
    return all;
  }
  const Candidate& named(std::string_view begin) const {
    const auto at = std::ranges::find_if(o.candidates, [&](const Candidate& c) { return c.config.starts_with(begin); });
    if (at == o.candidates.end()) fail("no candidate {}", begin);
    return *at;
  }
  /// The candidate with the least estimate.
  std::string expected() const {
    return std::ranges::min_element(o.candidates, {}, [](const Candidate& c) { return c.estimate_us; })->config;
  }
};

/// What a kernel would launch.
std::vector<PlannedLaunch> launches(const Offered& o, Kernel& kernel) {
  const std::vector<const void*> in(o.f.bound.inputs.size());
  const std::vector<void*> out(o.f.bound.outputs.size());
  PlannedLaunches planned;
  std::vector<void*> outputs = out;
  kernel.run({in, outputs, nullptr});
  return planned.list;
}

TEST(CudaNms, expects_many_blocks_to_share_long_lines_of_which_much_is_kept) {
  for (const std::string_view arch : {"sm_75", "sm_80", "sm_90a"}) {
    EXPECT_EQ(Offered({1, 27000, 27000}, arch).expected(), "chunks 2048") << arch;
    EXPECT_THAT(Offered({1, 8400, 8400}, arch).expected(), HasSubstr("chunks")) << arch;
    EXPECT_THAT(Offered({90, 3000, 3000}, arch).expected(), HasSubstr("chunks")) << arch;
  }
  EXPECT_THAT(Offered({1, 27000, 10}).expected(), HasSubstr("queue")) << "a limit that is reached at once";
  EXPECT_THAT(Offered({600, 300, 100}).expected(), HasSubstr("queue")) << "lines that fill the GPU";
}

TEST(CudaNms, offers_a_block_a_line_always_and_chunks_where_their_matrices_have_room) {
  for (const Lines& l : {Lines{1, 1, 1}, {1, 100, 100}, {80, 1000, 100}, {1, 30000, 30000}, {90, 3000, 3000}, {600, 300, 100}})
    EXPECT_THAT(Offered(l).names(), Contains("queue")) << l.lines << " " << l.count;
  EXPECT_THAT(Offered({512, 300, 100}).names(), Contains(HasSubstr("chunks")));
  EXPECT_THAT(Offered({513, 300, 100}).names(), Not(Contains(HasSubstr("chunks"))));  // 16.03 MiB
  EXPECT_THAT(Offered({1, 512 * 2048, 1000}).names(), Contains("chunks 2048"));
  EXPECT_THAT(Offered({1, 512 * 2048 + 1, 1000}).names(), Not(Contains(HasSubstr("chunks"))));  // more than 1024 launches
}

/// A measurement has a limit of 0 there, and takes no box.
TEST(CudaNms, leaves_the_choice_to_the_estimate_where_the_run_computes_the_limit) {
  using testing::ElementsAre;
  EXPECT_THAT(Offered({1, 27000, 27000, true}).names(), ElementsAre("chunks 2048"));
  EXPECT_THAT(Offered({1, 64, 64, true}).names(), ElementsAre("queue", "queue near"));
}

TEST(CudaNms, launches_two_kernels_a_chunk_of_many_blocks) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  const Offered o({1, 30000, 30000});
  const auto kernel = o.named("chunks 2048").prepare();
  const std::vector<PlannedLaunch> list = launches(o, *kernel);
  std::vector<int64_t> tests, picks, sorted;
  for (const PlannedLaunch& l : list) {
    if (l.entry == "test") tests.push_back(l.shape.grid[0]);
    if (l.entry == "pick") picks.push_back(l.shape.grid[0]);
    if (l.entry == "sort_tiles") sorted.push_back(l.shape.grid[0]);
  }
  EXPECT_EQ(sorted, std::vector<int64_t>{30});
  EXPECT_EQ(tests.size(), 15U);
  EXPECT_EQ(picks, std::vector<int64_t>(15, 1));
  // 144 words of 64 candidates for 256 rows each; behind the first chunk shares of the boxes taken, up to 8 blocks a multiprocessor.
  EXPECT_EQ(tests.front(), 144);
  EXPECT_EQ(tests[1], 144 + 8 * 8);
  EXPECT_EQ(tests[13], 144 + 8 * 104);
  EXPECT_EQ(tests.back(), 84 + 6 * 112) << "the last chunk has 1328 candidates";
  EXPECT_LT(kernel->workspace(), (int64_t{1} << 20) + 30000 * 8 * 6) << "a matrix of 512 KiB, and what sorting takes";
}

TEST(CudaNms, sorts_short_lines_by_a_block_each_and_marks_what_lies_behind_their_candidates) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  const Offered o({90, 3000, 3000});
  const auto kernel = o.named("chunks").prepare();
  const std::vector<PlannedLaunch> list = launches(o, *kernel);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list.front().entry, "sort");
  EXPECT_EQ(list.front().shape.grid[0], 90);
  EXPECT_THAT(list.front().source->code, HasSubstr("sort_candidates<1024, 4096, 4096>"));
}

}  // namespace
}  // namespace smelt::ops
