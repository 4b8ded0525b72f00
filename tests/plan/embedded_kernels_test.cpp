// Plans with their compiled kernels embedded, written and read back for GPUs that are not here.
#include "plan/embedded_kernels.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "device/cuda/compiler.h"
#include "import/import.h"
#include "run/plan.h"
#include "run/save.h"
#include "support/errors.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

device::cuda::CubinStats stats(const Plan& plan) {
  return dynamic_cast<const run::PlanImpl&>(plan).context().tuner.machine().gpu->cubins->stats();
}

std::vector<std::string> tactics(const Plan& plan) {
  std::vector<std::string> all;
  for (const StepInfo& s : plan.steps()) all.push_back(fmt::format("{} {} {}", s.problem, s.tactic, s.config));
  return all;
}

/// A product with a bias, a softmax and a transpose, under names that could break a line of the metadata.
Graph several_kernels() {
  Builder b;
  const ValueId x = b.input("x", to_sym({64, 256}), DType::f16);
  const ValueId w = b.weights("w", {256, 192}, DType::f16);
  const ValueId product = b.node("pro\tduct\nMatMul\tof x", "MatMul", {x, w}, to_sym({64, 192}), DType::f16);
  const ValueId sum = b.node("sum", "Add", {product, b.weights("bias", {192}, DType::f16)}, to_sym({64, 192}), DType::f16);
  const ValueId soft = b.node("soft", "Softmax", {sum}, to_sym({64, 192}), DType::f16, {{"axis", int64_t{-1}}});
  b.output(b.node("turned", "Transpose", {soft}, to_sym({192, 64}), DType::f16, {{"perm", std::vector<int64_t>{1, 0}}}));
  return std::move(b.g);
}

class Embeds : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
    folder_ = fs::path(testing::TempDir()) / fmt::format("smelt_embedded_{}", getpid());
    fs::create_directories(folder_);
    written_ = Plan::build(several_kernels(), for_arch("sm_87"));
    saved_ = save_plan(*written_, file(), {.embed_kernels = true});
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "plan.onnx"; }
  /// The plan's first kernel in the file, with one character of it changed for another.
  void damage_one() const {
    std::string bytes = read_text(file());
    const size_t at = bytes.find("smelt.plan.kernel.") + 200;
    bytes[at] = bytes[at] == 'A' ? 'B' : 'A';
    write_text(file(), bytes);
  }

  fs::path folder_;
  std::shared_ptr<const Plan> written_;
  Saved saved_;
};

TEST_F(Embeds, every_kernel_and_the_choice_of_it) {
  EXPECT_GE(saved_.kernels, 3);
  EXPECT_GT(saved_.kernel_bytes, 3000);
  const auto plan = Plan::build(file().string(), for_arch("sm_87"));
  EXPECT_EQ(tactics(*plan), tactics(*written_));
  EXPECT_EQ(stats(*plan).compiled, 0);
  EXPECT_GE(stats(*plan).from_memory, saved_.kernels);
}

TEST_F(Embeds, the_same_again_when_it_is_written_from_what_was_read) {
  const fs::path second = folder_ / "second.onnx";
  save_plan(*Plan::build(file().string(), for_arch("sm_87")), second, {.embed_kernels = true});
  EXPECT_TRUE(read_text(second) == read_text(file()));
  save_plan(*Plan::build(file().string(), for_arch("sm_87")), second);
  EXPECT_THAT(read_text(second), testing::Not(HasSubstr("smelt.plan.kernel.")));
}

TEST_F(Embeds, nothing_that_only_other_candidates_need) {
  std::map<std::string, std::string> metadata = import_model(file()).model.metadata;
  const EmbeddedKernels embedded = read_kernels(metadata);
  EXPECT_EQ(embedded.arch, "sm_87");
  EXPECT_EQ(static_cast<int64_t>(embedded.cubins.size()), saved_.kernels);
  // Their plan had compiled no others either, being made by estimate: every one is there under the key that it is asked for by.
  const auto known = dynamic_cast<const run::PlanImpl&>(*written_).context().tuner.machine().gpu->cubins->in_memory();
  ASSERT_EQ(known.size(), embedded.cubins.size());
  for (const auto& [key, cubin] : known) EXPECT_EQ(embedded.cubins.at(key)->bytes, cubin->bytes);
  for (const auto& [key, value] : metadata) EXPECT_FALSE(key.starts_with("smelt.plan.kernel.")) << key;
}

TEST_F(Embeds, kernels_of_which_a_damaged_one_is_compiled_again) {
  damage_one();
  testing::internal::CaptureStderr();
  const auto plan = Plan::build(file().string(), for_arch("sm_87"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is damaged"));
  EXPECT_EQ(stats(*plan).compiled, 1);
  EXPECT_EQ(tactics(*plan), tactics(*written_));
}

TEST_F(Embeds, nothing_for_another_architecture_and_a_load_there_says_so) {
  testing::internal::CaptureStderr();
  const auto plan = Plan::build(file().string(), for_arch("sm_90"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("carries kernels for sm_87, which NVIDIA H100 (sm_90a) does not"));
  EXPECT_GE(stats(*plan).compiled, 3);
}

TEST_F(Embeds, choices_that_a_filter_of_tactics_overrules) {
  Options o = for_arch("sm_87");
  o.tactics = "-cuda";
  EXPECT_THROW(Plan::build(file().string(), o), Error);
}

TEST_F(Embeds, what_the_processor_leaves_alone) {
  testing::internal::CaptureStderr();
  Session session(Plan::build(file().string(), quick()));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(session.run({{"x", Tensor::zeros(DType::f16, {64, 256})}}).size(), 1u);
}

TEST_F(Embeds, nothing_where_it_cannot_know_what) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim(4)});
  b.output(b.node("y", "Sigmoid", {x}, {Dim("n"), Dim(4)}));
  const auto dynamic = Plan::build(std::move(b.g), for_arch("sm_87"));
  EXPECT_THAT(error_of([&] { save_plan(*dynamic, folder_ / "p.onnx", {.embed_kernels = true}); }), HasSubstr("fixed shapes"));
  const auto on_host = Plan::build(several_kernels(), quick());
  EXPECT_THAT(error_of([&] { save_plan(*on_host, folder_ / "p.onnx", {.embed_kernels = true}); }), HasSubstr("processor"));
  EXPECT_FALSE(fs::exists(folder_ / "p.onnx"));
}

TEST(EmbeddedKernels, are_none_in_metadata_that_is_no_plans) {
  for (const char* gpu : {"", "sm_87", "sm_87 0", "sm_87 -3", "sm_87 99999999999999999999", "16 sm_87"}) {
    std::map<std::string, std::string> metadata{
        {"smelt.plan.gpu", gpu}, {"smelt.plan.tactics", "a\tb\tc d\n"}, {"other", "kept"}};
    EXPECT_TRUE(read_kernels(metadata).arch.empty()) << gpu;
    EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"other", "kept"}}));
  }
  std::map<std::string, std::string> odd{{"smelt.plan.gpu", "sm_87 16"},
                                         {"smelt.plan.tactics", "\n\t\n\t\t\na\tb\tc d e\nx\ty\tz\n"}};
  const EmbeddedKernels embedded = read_kernels(odd);
  EXPECT_EQ(embedded.choices.at("b"), (tune::PinnedChoice{"c", "d e"}));
  EXPECT_EQ(embedded.choices.at("y"), (tune::PinnedChoice{"z", ""}));
}

}  // namespace
}  // namespace smelt::plan
