// Plans whose data file holds weights as kernels read them: opening one packs nothing, and what does not fit is packed anew.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "base/file.h"
#include "import/import.h"
#include "import/metadata.h"
#include "import/weight_forms.h"
#include "run/save.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A window of 3 × 3 over many channels, one over a channel each, a pointwise convolution, a product of its means.
Graph network() {
  constexpr int64_t channels = 64, size = 12;
  Builder b;
  const SymShape image = to_sym({1, channels, size, size});
  const auto conv = [&](const std::string& name, ValueId x, const Shape& w, int64_t group) {
    const std::vector<int64_t> pads(4, w[2] / 2);
    return b.node(name, "Conv", {x, b.weights(name + ".w", w)}, image, DType::f32, {{"group", group}, {"pads", pads}});
  };
  ValueId x = conv("wide", b.input("x", image), {channels, channels, 3, 3}, 1);
  x = conv("deep", x, {channels, 1, 3, 3}, channels);
  x = conv("point", x, {channels, channels, 1, 1}, 1);
  x = b.node("mean", "GlobalAveragePool", {x}, to_sym({1, channels, 1, 1}));
  x = b.node("flat", "Reshape", {x, b.ints({1, channels})}, to_sym({1, channels}));
  b.output(b.node("y", "MatMul", {x, b.weights("w", {channels, 100})}, to_sym({1, 100})));
  return std::move(b.g);
}

class PackedPlans : public testing::TestWithParam<std::string> {
 protected:
  PackedPlans() : folder_(fs::path(testing::TempDir()) / fmt::format("smelt_packed_{}", getpid())) {
    fs::create_directories(folder_);
    options_.tactics = GetParam();
  }
  ~PackedPlans() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name = "plan.onnx") const { return folder_ / name; }
  std::shared_ptr<const Plan> opened(const std::string& name = "plan.onnx") const {
    return Plan::build(file(name).string(), options_);
  }
  Tensor result(const std::shared_ptr<const Plan>& plan) const {
    Session session(plan);
    return session.run({{"x", random_tensor({1, 64, 12, 12}, 5)}}).begin()->second;
  }
  /// The bytes of the metadata's list of forms.
  std::string forms() const {
    const auto metadata = import_model(file()).model.metadata;
    const auto at = metadata.find(plan_forms_key);
    return at == metadata.end() ? "" : at->second;
  }
  /// The plan with another list, as long as the one that it has, under another name.
  void change(const std::string& to) const {
    std::string text = read_text(file());
    const std::string from = forms();
    ASSERT_EQ(to.size(), from.size());
    const size_t at = text.find(from);
    ASSERT_NE(at, text.npos);
    std::ofstream(file("changed.onnx"), std::ios::binary) << text.replace(at, from.size(), to);
  }

  Options options_ = quick();

 private:
  fs::path folder_;
};

TEST_P(PackedPlans, open_without_packing) {
  const auto plan = Plan::build(network(), options_);
  const int64_t packed = plan->build_info().packed;
  ASSERT_GT(packed, 0);
  const Saved saved = save_plan(*plan, file());
  EXPECT_EQ(saved.packed_bytes, packed);
  const auto again = opened();
  EXPECT_EQ(again->build_info().packed, 0);
  const Tensor found = result(again);
  EXPECT_EQ(again->build_info().packed, 0) << "nor in the first run";
  expect_same(found, result(plan));
  // What a plan that was read has, its plan has too.
  const std::string before = read_text(file()), data = read_text(file("plan.data"));
  EXPECT_EQ(save_plan(*again, file("again.onnx"), {.copy_weights = true}).packed_bytes, packed);
  EXPECT_EQ(opened("again.onnx")->build_info().packed, 0);
  save_plan(*plan, file());
  EXPECT_TRUE(read_text(file()) == before) << "the same bytes";
  EXPECT_TRUE(read_text(file("plan.data")) == data) << "the same bytes";
}

TEST_P(PackedPlans, of_one_network_share_what_they_pack_while_they_live) {
  auto plan = Plan::build(network(), options_);
  const int64_t packed = plan->build_info().packed;
  const auto second = Plan::build(network(), options_);
  EXPECT_LT(second->build_info().packed, packed / 8);
  EXPECT_EQ(save_plan(*second, file()).packed_bytes, save_plan(*plan, file("first.onnx")).packed_bytes);
  const Tensor want = result(plan);
  plan.reset();
  expect_same(result(second), want);
}

TEST_P(PackedPlans, are_at_most_three_times_their_weights) {
  const Saved saved = save_plan(*Plan::build(network(), options_), file());
  EXPECT_LE(saved.packed_bytes, 2 * (saved.data_bytes - saved.packed_bytes));
  const Saved plain = save_plan(*Plan::build(network(), options_), file("plain.onnx"), {.packed_weights = false});
  EXPECT_EQ(plain.packed_bytes, 0);
  EXPECT_LE(plain.data_bytes, saved.data_bytes - saved.packed_bytes);
  EXPECT_GT(opened("plain.onnx")->build_info().packed, 0);
}

TEST_P(PackedPlans, pack_anew_what_another_version_packed) {
  auto plan = Plan::build(network(), options_);
  save_plan(*plan, file());
  const Tensor want = result(plan);
  const int64_t packed = plan->build_info().packed;
  plan.reset();  // while it lives others find its forms
  change(std::regex_replace(forms(), std::regex(" 1:f32"), " 0:f32"));
  const auto again = opened("changed.onnx");
  EXPECT_EQ(again->build_info().packed, packed);
  expect_same(result(again), want);
}

/// Each number of each line replaced by others: the plan runs, and where the form cannot be one, as it did.
TEST_P(PackedPlans, with_wrong_lists_run) {
  auto plan = Plan::build(network(), options_);
  save_plan(*plan, file());
  const std::string text = forms();
  const Tensor want = result(plan);
  const int64_t packed = plan->build_info().packed;
  plan.reset();
  const std::regex number("(^|\n| )([0-9]+)(?= )");
  size_t numbers = 0;
  for (std::sregex_iterator at(text.begin() + static_cast<std::ptrdiff_t>(text.find('\n')), text.end(), number), end; at != end;
       ++at) {
    const size_t first = text.find('\n') + static_cast<size_t>(at->position(2)), length = static_cast<size_t>(at->length(2));
    ++numbers;
    for (const std::string& to :
         {std::string(length, '9'), std::string(length, '0'), std::string(length, '-'), std::string(length, '1')}) {
      SCOPED_TRACE(fmt::format("{} at {}: {}", at->str(2), first, to));
      if (to == at->str(2)) continue;
      change(std::string(text).replace(first, length, to));
      const auto again = opened("changed.onnx");
      const Tensor found = result(again);
      ASSERT_EQ(found.shape(), want.shape());
      const bool is_offset = numbers % 3 == 1,
                 may_fit = is_offset && to[0] == '0';  // at the file's beginning there are other bytes
      if (!may_fit) {
        EXPECT_GT(again->build_info().packed, 0);
        expect_same(found, want);
      }
    }
  }
  EXPECT_EQ(numbers, 3 * static_cast<size_t>(std::ranges::count(text, '\n') - 1));
  for (const char* other : {"blan.data\n", "plan.onnx\n"}) {
    change(other + text.substr(10));
    EXPECT_EQ(opened("changed.onnx")->build_info().packed, packed) << other;
  }
}

/// A plan that points at a model's own file would not notice that other weights lie there.
TEST_P(PackedPlans, hold_forms_of_their_own_weights_alone) {
  save_plan(*Plan::build(network(), options_), file("model.onnx"), {.packed_weights = false});
  const auto plan = Plan::build(file("model.onnx").string(), options_);
  EXPECT_EQ(save_plan(*plan, file()).packed_bytes, 0);
  EXPECT_EQ(forms(), "");
  EXPECT_GT(save_plan(*plan, file(), {.copy_weights = true}).packed_bytes, 0);
  EXPECT_THAT(forms(), HasSubstr("plan.data\n"));
}

TEST_P(PackedPlans, have_metadata_that_is_read_without_the_rest) {
  save_plan(*Plan::build(network(), options_), file());
  EXPECT_EQ(metadata_of(file()), import_model(file()).model.metadata);
  EXPECT_TRUE(metadata_of(file("missing.onnx")).empty());
  const std::string text = read_text(file());
  for (size_t length = 0; length < text.size(); length += 97) {  // what is cut off or damaged has less, and does no harm
    std::ofstream(file("cut.onnx"), std::ios::binary) << text.substr(0, length);
    EXPECT_LE(metadata_of(file("cut.onnx")).size(), metadata_of(file()).size());
    std::string damaged = text;
    damaged[length] = static_cast<char>(~damaged[length]);
    std::ofstream(file("cut.onnx"), std::ios::binary) << damaged;
    metadata_of(file("cut.onnx"));
  }
}

INSTANTIATE_TEST_SUITE_P(Tactics, PackedPlans, testing::Values("", "-onednn", "-winograd", "-onednn,-winograd"),
                         [](const auto& info) {
                           return info.param.empty() ? "all"
                                                     : "without" + std::regex_replace(info.param, std::regex("[^a-z]+"), "_");
                         });

}  // namespace
}  // namespace smelt::plan
