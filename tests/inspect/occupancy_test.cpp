// Occupancy against NVIDIA's own calculator, which needs no GPU: cuda_occupancy.h of the wheel nvidia-cuda-runtime.
#include "inspect/occupancy.h"

#include <gmock/gmock.h>

#include <random>

#include "smelt/error.h"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define SMELT_HAS_OCCUPANCY_HEADER 1
#endif

namespace smelt::inspect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return std::string(e.what()) + " / " + e.next();
  }
  return "nothing was thrown";
}

class OccupancyOf : public ::testing::TestWithParam<int> {
 protected:
  const Multiprocessor& m_ = multiprocessor_of("sm_" + std::to_string(GetParam()));
  std::mt19937 random_{static_cast<unsigned>(GetParam())};
  int any(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  Launch launch() {
    Launch l{.threads = any(1, 1056), .registers = any(0, 255), .barriers = any(0, 16)};
    if (any(0, 1)) l.threads = 32 * any(1, 32);
    if (any(0, 3)) l.registers = any(16, 128);
    if (any(0, 2)) l.static_shared = any(0, 48 << 10);
    if (any(0, 2)) l.dynamic_shared = any(0, static_cast<int>(m_.shared));
    if (any(0, 1)) l.dynamic_shared /= any(1, 32);
    if (!any(0, 4)) l = {.threads = any(1, 64), .registers = any(0, 40), .barriers = any(0, 1)};  // where blocks run out
    return l;
  }
};

std::string text(const Launch& l) {
  return ::testing::PrintToString(std::vector<int64_t>{l.threads, l.registers, l.static_shared, l.dynamic_shared, l.barriers});
}

#ifdef SMELT_HAS_OCCUPANCY_HEADER
TEST_P(OccupancyOf, random_launches_is_that_of_cuda_occupancy_h) {
  cudaOccDeviceProp device;
  device.computeMajor = m_.capability / 10;
  device.computeMinor = m_.capability % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = 32 * m_.warps;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = static_cast<size_t>(m_.shared);
  device.numSms = 1;
  device.sharedMemPerBlockOptin = static_cast<size_t>(m_.shared_per_block);
  device.reservedSharedMemPerBlock = static_cast<size_t>(m_.reserved);
  const cudaOccDeviceState state;
  int run = 0;
  std::set<Limit> limiters;
  for (int i = 0; i < 2000; ++i) {
    const Launch l = launch();
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = 1024;
    function.numRegs = l.registers;
    function.sharedSizeBytes = static_cast<size_t>(l.static_shared);
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = static_cast<size_t>(std::max<int64_t>(l.dynamic_shared, m_.shared));  // it opted in
    function.numBlockBarriers = l.barriers;
    cudaOccResult theirs{};
    ASSERT_EQ(cudaOccMaxActiveBlocksPerMultiprocessor(&theirs, &device, &function, &state, l.threads,
                                                      static_cast<size_t>(l.dynamic_shared)),
              CUDA_OCC_SUCCESS);
    const Occupancy ours = occupancy(m_, l);
    ASSERT_EQ(ours.blocks, theirs.activeBlocksPerMultiprocessor) << text(l);
    ASSERT_EQ(ours.of(Limit::registers), theirs.blockLimitRegs) << text(l);
    ASSERT_EQ(ours.of(Limit::shared), theirs.blockLimitSharedMem) << text(l);
    ASSERT_EQ(ours.of(Limit::warps), theirs.blockLimitWarps) << text(l);
    ASSERT_EQ(ours.of(Limit::blocks), theirs.blockLimitBlocks) << text(l);
    ASSERT_EQ(ours.of(Limit::barriers), theirs.blockLimitBarriers) << text(l);
    ASSERT_EQ(ours.registers_per_warp * ours.warps_per_block, theirs.allocatedRegistersPerBlock) << text(l);
    ASSERT_EQ(ours.shared_per_block, static_cast<int64_t>(theirs.allocatedSharedMemPerBlock)) << text(l);
    ASSERT_EQ(ours.refused.empty(), ours.blocks > 0) << text(l);
    // Their flags name what stood at the least before barriers were looked at, too.
    constexpr unsigned bits[] = {OCC_LIMIT_REGISTERS, OCC_LIMIT_SHARED_MEMORY, OCC_LIMIT_WARPS, OCC_LIMIT_BLOCKS,
                                 OCC_LIMIT_BARRIERS};
    for (const Limit k : all_limits) {
      if (!ours.limited_by(k)) continue;
      ASSERT_TRUE(theirs.limitingFactors & bits[static_cast<size_t>(k)]) << text(l) << " " << name(k);
      limiters.insert(k);
    }
    run += ours.blocks > 0;
  }
  EXPECT_GT(run, 1000);  // most of them are launches that run
  EXPECT_EQ(limiters.size(), m_.capability >= 90 ? 5u : 4u);
}
#else
TEST(Occupancy, against_cuda_occupancy_h) {
  GTEST_SKIP() << "no cuda_occupancy.h: the wheel nvidia-cuda-runtime, which comes with PyTorch, has it";
}
#endif

TEST_P(OccupancyOf, a_change_gives_what_it_says_and_one_more_of_it_does_not) {
  int seen = 0;
  for (int i = 0; i < 500; ++i) {
    const Launch l = launch();
    const Occupancy now = occupancy(m_, l);
    for (const Change& c : changes(m_, l)) {
      const auto with = [&](int registers, int64_t shared) {
        Launch other = l;
        if (c.threads) other.threads = *c.threads;
        if (c.registers) other.registers = *c.registers + registers;
        if (c.shared) other.static_shared = 0, other.dynamic_shared = *c.shared + shared;
        return occupancy(m_, other);
      };
      ASSERT_EQ(with(0, 0).blocks, c.blocks) << text(l);
      ASSERT_EQ(with(0, 0).warps, c.warps) << text(l);
      ASSERT_GT(c.warps, now.warps) << text(l);
      if (c.registers && *c.registers < 255) {
        ASSERT_LT(with(1, 0).blocks, c.blocks) << text(l);
      }
      if (c.shared) {
        ASSERT_LT(with(0, 1).blocks, c.blocks) << text(l);
      }
      ++seen;
    }
    if (now.blocks == 0) continue;
    const Change most = room(m_, l);
    Launch filled = l;
    filled.registers = *most.registers;
    filled.static_shared = 0;
    filled.dynamic_shared = *most.shared;
    ASSERT_EQ(occupancy(m_, filled).blocks, now.blocks) << text(l);
    ASSERT_GE(*most.registers, std::min(l.registers, 255)) << text(l);
    ASSERT_GE(*most.shared, l.shared()) << text(l);
  }
  EXPECT_GT(seen, 200);
}

std::vector<int> capabilities() {
  std::vector<int> all;
  for (const Multiprocessor& m : multiprocessors()) all.push_back(m.capability);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Architectures, OccupancyOf, ::testing::ValuesIn(capabilities()),
                         [](const auto& info) { return "sm_" + std::to_string(info.param); });

TEST(Occupancy, of_63_registers_is_half_and_88_registers_give_each_scheduler_five_warps) {
  const Multiprocessor& hopper = multiprocessor_of("sm_90a");
  EXPECT_EQ(occupancy(hopper, {.threads = 128, .registers = 63}).warps, 32);
  EXPECT_EQ(occupancy(hopper, {.threads = 32, .registers = 88}).warps, 20);
}

TEST(Occupancy, the_textbook_question_is_answered_with_its_limiter_and_what_would_help) {
  const Multiprocessor& m = multiprocessor_of("9.0");
  const Launch l = parse_launch("regs=63,smem=70KiB,threads=128");
  const Occupancy o = occupancy(m, l);
  EXPECT_EQ(o.blocks, 3);
  EXPECT_EQ(o.warps, 12);
  EXPECT_EQ(o.limiter(), "shared memory");
  EXPECT_THAT(what_if(m, l), ElementsAre("at 56 KiB of shared memory, 4 blocks instead of 3",
                                         "at 27.5 KiB of shared memory, 8 blocks instead of 3"));
}

TEST(Occupancy, where_registers_and_shared_memory_both_hold_it_the_change_names_both) {
  const auto texts = what_if(multiprocessor_of("sm_90"), {.threads = 256, .registers = 128, .dynamic_shared = 100 << 10});
  ASSERT_FALSE(texts.empty());
  EXPECT_EQ(texts.front(), "at 80 registers and 75 KiB of shared memory, 3 blocks instead of 2");
}

TEST(Occupancy, another_block_is_proposed_where_blocks_are_what_runs_out) {
  EXPECT_THAT(what_if(multiprocessor_of("sm_90"), {.threads = 32, .registers = 16}),
              ElementsAre("at 64 threads a block, 64 warps (32 blocks) instead of 32"));
}

TEST(Occupancy, a_block_that_cannot_run_says_why) {
  const Multiprocessor& m = multiprocessor_of("sm_75");
  EXPECT_THAT(occupancy(m, {.threads = 64, .registers = 32, .dynamic_shared = 70 << 10}).refused,
              HasSubstr("70 KiB of shared memory, at most 64 KiB"));
  EXPECT_THAT(occupancy(m, {.threads = 1024, .registers = 72}).refused, HasSubstr("1024 threads with 72 registers"));
}

TEST(Occupancy, an_unknown_architecture_is_refused_with_those_that_are_known) {
  EXPECT_THAT(message([] { multiprocessor_of("sm_61"); }), HasSubstr("sm_75, sm_80"));
  EXPECT_THAT(message([] { multiprocessor_of(""); }), HasSubstr("no architecture"));
  EXPECT_THAT(message([] { multiprocessor_of("sm_90b"); }), HasSubstr("no architecture"));
}

TEST(Launch, is_read_from_its_text_and_what_it_lacks_stays) {
  const Launch l = parse_launch("threads=16x16,smem=1.5KiB,static=48,barriers=2", {.registers = 40});
  EXPECT_EQ(l.threads, 256);
  EXPECT_EQ(l.registers, 40);
  EXPECT_EQ(l.dynamic_shared, 1536);
  EXPECT_EQ(l.static_shared, 48);
  EXPECT_EQ(l.barriers, 2);
}

TEST(Launch, that_cannot_be_read_is_refused_by_the_part_that_is_wrong) {
  for (const auto& [text, part] : {std::pair{"regs=256", "'regs=256': a thread has 0 to 255"},
                                   {"regs=", "0 to 255"},
                                   {"threads=0", "1 to 1024"},
                                   {"threads=64x64", "1 to 1024"},
                                   {"smem=-4KiB", "70KiB"},
                                   {"smem=4MB", "70KiB"},
                                   {"smem=nan", "70KiB"},
                                   {"blocks=3", "there is regs"},
                                   {"threads", "1 to 1024"},
                                   {"barriers=17", "0 to 16"}})
    EXPECT_THAT(message([&text = text] { parse_launch(text); }), HasSubstr(part)) << text;
}

}  // namespace
}  // namespace smelt::inspect
